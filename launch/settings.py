"""What every command shares: exit codes, the version, `--debug`, and the wish to stop."""

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import click
from click.types import convert_type

Command = TypeVar("Command", bound=Callable[..., Any])
GOOD, CHECK_FAILED, BAD_INPUT, UNFINISHED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 130, 143


class Stopped(Exception):
    """Someone asked this process to end (SIGTERM); raised so that everything is cleaned up on the way out."""


@dataclass
class Settings:
    """What the command line says about the command itself, and when the command began."""

    debug: bool = False
    began: float = field(default_factory=time.perf_counter)


path_option = partial(click.option, type=click.Path(path_type=Path))


def _debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    settings = context.find_object(Settings)
    if settings is not None and value:
        settings.debug = True


debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, callback=_debug, help="Show the traceback of an error."
)


def output_options(printed: str = "one record of JSON") -> Callable[[Command], Command]:
    """`--json`, which prints this, and `--debug`."""
    json_option = click.option("--json", "as_json", is_flag=True, help=f"Print {printed}.")
    return lambda command: json_option(debug_option(command))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[str]) -> None:
    """A table as wide as the terminal, or as it needs where it goes elsewhere; only `words` stand left and may wrap."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table, cells = Table(box=box.SIMPLE_HEAD), list(rows)
    for place, heading in enumerate(headings):
        left = heading in words
        whole = heading == headings[0] or not left
        # A name or a number is never cut, however narrow the terminal.
        least = max(len(each) for each in (heading, *(row[place] for row in cells))) if whole else None
        table.add_column(heading, justify="left" if left else "right", no_wrap=whole, min_width=least)
    for row in cells:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def list_of(kind: type[float], what: str) -> Any:
    """The type of an option that takes one number or several: `500,5000`."""

    def read(text: str) -> tuple[float, ...]:
        if re.fullmatch(r"[1-9][0-9]{0,2}(,[0-9]{3})*,0[0-9]{2}(,[0-9]{3})*", text):
            raise click.BadParameter(f"{text!r} is a list; write the one number as {text.replace(',', '')}")
        try:
            return tuple(map(kind, text.split(",")))
        except ValueError:
            raise click.BadParameter(f"{text!r} is not a list of {what}") from None

    # What the help calls the value.
    read.__name__ = "list"
    return convert_type(read)


def command_seconds() -> float:
    """How long the command has been at work."""
    return time.perf_counter() - click.get_current_context().ensure_object(Settings).began


def complete(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """What a shell offers for a value: those of the names that begin as what was typed, after the last comma."""

    def offered(context: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
        before, comma, begun = typed.rpartition(",")
        return [f"{before}{comma}{name}" for name in names() if name.startswith(begun)]

    return offered


def _add_file(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        from parley.protocols.plugins import add_file

        add_file(value)


protocol_file_option = path_option(
    "--protocol-file",
    expose_value=False,
    is_eager=True,
    callback=_add_file,
    help="A Python file with protocols of your own.",
)


@contextmanager
def signals(handler: Any, *numbers: int) -> Iterator[None]:
    """Inside, these signals are handled so. Only the main thread of a process can say that."""
    mine = numbers if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, handler) for number in mine}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def release() -> str:
    try:
        return version("parley-ldp")
    except PackageNotFoundError:
        return "not installed"
