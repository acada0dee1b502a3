"""What the processes share: options of the command line, logging, exit codes."""

import asyncio
import gc
import json
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, fields
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.security import SERVER_PREFIXES, Security, from_hex, read_allowed, read_keys

Command = Callable[..., None]
GOOD, CHECK_FAILED, BAD_INPUT, UNFINISHED = 0, 1, 2, 3
ANY_PORT = "tcp://127.0.0.1:0"
# Seconds after which whoever waits for the board gives it up.
LONGEST_SILENCE = 180.0


def start_logging() -> None:
    """One line an event on standard error, which the launcher sends to logs/."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s")


def run_to_exit(work: Coroutine[Any, Any, int], *, blocking: bool = False) -> None:
    """Run a node to its end and leave with its exit code; a Parley error is one sentence.

    With `blocking` the node's port waits by itself, and there is no event loop.
    """
    start_logging()
    # What has been loaded stays: the collector need not look at it again and again.
    gc.freeze()
    try:
        code = run_blocking(work) if blocking else asyncio.run(work)
    except BadInput as error:
        code = complain(error, BAD_INPUT)
    except ParleyError as error:
        code = complain(error, UNFINISHED)
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def complain(error: ParleyError, code: int) -> int:
    """One sentence on standard error, which may be a file on a disk that is full: the exit code must tell, then."""
    try:
        print(f"parley: {error}", file=sys.stderr, flush=True)
    except OSError:
        # What is left in the buffer would be tried again at the very end, and change the exit code.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stderr.fileno())
    return code


def run_blocking(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine whose port never hands over to an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        return int(ended.value)
    raise LocalProtocolError("a node without an event loop cannot wait for one")


@dataclass(frozen=True, kw_only=True)
class BoardLink:
    """How a node reaches the board, as it was typed: where it is, under which conditions, with which keys."""

    addresses: Path | None = None
    inbox: str | None = None
    feed: str | None = None
    delivery: str | None = None
    conditions: Path | None = None
    keys: Path | None = None
    board_key: Path | None = None

    def board(self) -> BoardAddresses:
        """The board's endpoints: from the file it wrote when it had bound them, or as given one by one."""
        if self.addresses is None:
            if not (self.inbox and self.feed and self.delivery):
                raise BadInput("where is the board? Give --addresses FILE, or --inbox, --feed and --delivery")
            return BoardAddresses(inbox=self.inbox, feed=self.feed, delivery=self.delivery)
        return known_addresses(self.addresses)

    def security(self) -> Security | None:
        """Our own pair and the board's public key; both or neither."""
        if self.keys is None and self.board_key is None:
            return None
        if self.keys is None or self.board_key is None:
            raise BadInput("give --keys and --board-key together: this node's key pair and the board's public key")
        return Security(keys=read_keys(self.keys), server=self.server(self.board_key)[1])

    def server(self, public: Path) -> tuple[str, str]:
        """Whose public key a file holds, board, shuffler or relay, and the key."""
        listed = [(name, key) for key, name in read_allowed(public).items()]
        if len(listed) != 1 or not (listed[0][0] in ("board", "shuffler") or listed[0][0].startswith(SERVER_PREFIXES)):
            raise BadInput(f"{public} must hold the board's public key and no other; see `parley keys`")
        return listed[0]

    def under(self, port: NodePort, node: str) -> NodePort:
        """The port itself, or the port under the conditions of a file."""
        if self.conditions is None:
            return port
        from parley.emulator.transport.conditions import read_conditions
        from parley.emulator.transport.faults import FaultyPort

        return FaultyPort(port, read_conditions(self.conditions), node)


def read_addresses(path: Path) -> BoardAddresses:
    """The endpoints a board wrote down."""
    try:
        found = json.loads(path.read_text())
        return BoardAddresses(**{each.name: str(found[each.name]) for each in fields(BoardAddresses)})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"the board's addresses cannot be read from {path}: {error}") from error


def write_addresses(path: Path, bound: BoardAddresses) -> None:
    """Say where others find us, whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(vars(bound)))
    fresh.replace(path)


# The same, read once in the life of a node: a process that forks nodes reads it for all of them.
known_addresses = lru_cache(maxsize=256)(read_addresses)


class RenamedOption(click.Option):
    """An option that still answers to its old name, which `--help` no longer mentions."""

    def __init__(self, *arguments: Any, formerly: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.formerly = formerly

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        parser.add_option(obj=self, opts=[self.formerly], dest=self.name)


def endpoint_option(flag: str, purpose: str, *, formerly: str | None = None) -> Callable[[Command], Command]:
    """An endpoint that this process binds: by default a free port that only this machine reaches."""
    renamed: dict[str, Any] = {} if formerly is None else {"cls": RenamedOption, "formerly": formerly}
    return click.option(flag, default=ANY_PORT, show_default=True, help=purpose, **renamed)


path_option = partial(click.option, type=click.Path(path_type=Path))


def collect_options(argument: str, kind: type, *options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator for a command: it adds these options and collects them, as a dataclass, in one argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def collected(**given: Any) -> None:
            made = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
            command(**{argument: made}, **given)

        decorated: Command = collected
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


# How a node reaches the board.
link_options = collect_options(
    "link",
    BoardLink,
    path_option("--addresses", help="File with the board's endpoints."),
    click.option("--inbox", cls=RenamedOption, formerly="--post", help="Endpoint of the board's inbox."),
    click.option("--feed", help="Endpoint of the board's feed."),
    click.option("--delivery", cls=RenamedOption, formerly="--desk", help="Endpoint of the board's delivery."),
    path_option("--conditions", help="Faults to inject into this node's link (TOML)."),
    path_option("--keys", help="This node's key pair (see `parley keys`)."),
    path_option("--board-key", help="File with the board's public key."),
)


def read_hex(text: str, size: int, otherwise: str) -> bytes:
    """So many bytes as they were typed in hexadecimal; BadInput says `otherwise`."""
    content = from_hex(text)
    if len(content) != size:
        raise BadInput(otherwise)
    return content


def board_security(keys: Path | None, allowed: Path | None) -> Security | None:
    """The board's own pair and whom it lets in; both or neither."""
    if keys is None and allowed is None:
        return None
    if keys is None or allowed is None:
        raise BadInput("give --keys and --allowed together: the board's key pair and the keys it admits")
    return Security(keys=read_keys(keys), allowed=read_allowed(allowed))
