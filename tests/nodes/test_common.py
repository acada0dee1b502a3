"""The options by which nodes find the board: their names, and the names they had before."""

from importlib import import_module

import click
import pytest

from parley.nodes.common import RenamedOption

LINK = {"--inbox": "--post", "--delivery": "--desk"}
RENAMED = {
    "board": LINK,
    "analyst": LINK,
    "user": LINK,
    "relay": {**LINK, "--own-inbox": "--own-post"},
    "shuffler": {**LINK, "--own-inbox": "--own-post"},
}


@pytest.mark.parametrize("node", RENAMED)
def test_old_names_still_work_and_are_not_advertised(node: str) -> None:
    command: click.Command = import_module(f"parley.nodes.{node}").main
    renamed = {each.opts[0]: each.formerly for each in command.params if isinstance(each, RenamedOption)}
    assert renamed == RENAMED[node]
    endpoints = {name: f"tcp://127.0.0.1:{port}" for port, name in enumerate(renamed, 7001)}
    given = [word for pair in endpoints.items() for word in pair]
    now = command.make_context(node, list(given), resilient_parsing=True)
    before = command.make_context(node, [renamed.get(word, word) for word in given], resilient_parsing=True)
    assert now.params == before.params
    assert set(endpoints.values()) <= set(now.params.values())
    assert not [old for old in renamed.values() if old in command.get_help(now)]
