"""Reads the command lines of nodes in the process that forks them, so that a thousand nodes need not."""

from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from parley.emulator.errors import ParleyError


class ArgumentCache:
    """Remembers the last command line: of the next one, which differs in a few values, it reads only those."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._context: click.Context | None = None

    def read(self, node: str, arguments: list[str]) -> dict[str, Any] | None:
        """What the node's function is called with; None if that fails, so that the node itself says why, in its log."""
        words = dict(zip(arguments[::2], arguments[1::2], strict=False))
        try:
            if self._context is not None and self._context.info_name == node and self._alike(arguments, words):
                return with_addresses(node, {**self._context.params, **self._others(self._context, words)})
            command: click.Command = import_module(f"parley.nodes.{node}").main
            self._words, self._context = words, command.make_context(node, list(arguments))
            return with_addresses(node, self._context.params)
        except (ImportError, KeyError, click.ClickException, click.exceptions.Exit):
            return None

    def _alike(self, arguments: list[str], words: dict[str, str]) -> bool:
        """The same options, each with its value, in the same order."""
        return 2 * len(words) == len(arguments) and list(words) == list(self._words)

    def _others(self, context: click.Context, words: dict[str, str]) -> dict[str, Any]:
        """Those that were given other values than before."""
        options = {name: option for option in context.command.params for name in option.opts}
        given = {options[word]: value for word, value in words.items() if value != self._words[word]}
        return {str(option.name): option.process_value(context, value) for option, value in given.items()}


def with_addresses(node: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, with the board's addresses read: forked nodes find them in memory."""
    if node == "user" and parameters["addresses"] is not None:
        with suppress(ParleyError):
            import_module("parley.nodes.common").known_addresses(parameters["addresses"])
    return parameters
