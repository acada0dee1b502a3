"""What the three processes share: options of the command line, logging, exit codes."""

import asyncio
import json
import logging
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from emulator.addresses import BoardAddresses
from emulator.conditions import read_conditions
from emulator.errors import BadInput, ParleyError
from emulator.faults import FaultyPort
from emulator.transport import NodePort

Port = TypeVar("Port", bound=NodePort)
GOOD, CHECK_FAILED, BAD_INPUT, UNFINISHED = 0, 1, 2, 3


def start_logging() -> None:
    """One line an event on standard error, which the launcher sends to logs/."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True)


def run_to_exit(work: Coroutine[Any, Any, int]) -> None:
    """Run a node to its end and leave with its exit code; a Parley error is one sentence."""
    start_logging()
    try:
        code = asyncio.run(work)
    except BadInput as error:
        print(f"parley: {error}", file=sys.stderr)
        code = BAD_INPUT
    except ParleyError as error:
        print(f"parley: {error}", file=sys.stderr)
        code = UNFINISHED
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    sys.exit(code)


def find_board(addresses: Path | None, post: str | None, feed: str | None, desk: str | None) -> BoardAddresses:
    """The board's endpoints: from the file it wrote when it had bound them, or as given one by one."""
    if addresses is None:
        if not (post and feed and desk):
            raise BadInput("where is the board? Give --addresses FILE, or --post, --feed and --desk")
        return BoardAddresses(post=post, feed=feed, desk=desk)
    try:
        found = json.loads(addresses.read_text())
        return BoardAddresses(**{name: str(found[name]) for name in ("post", "feed", "desk")})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"the board's addresses cannot be read from {addresses}: {error}") from error


def board_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options by which a node finds the board."""
    for option in (
        click.option(
            "--conditions", type=click.Path(path_type=Path), help="Faults to put this node's link under (TOML)."
        ),
        click.option("--desk", help="Endpoint of the board's desk."),
        click.option("--feed", help="Endpoint of the board's feed."),
        click.option("--post", help="Endpoint of the board's post."),
        click.option(
            "--addresses", type=click.Path(path_type=Path), help="File in which the board wrote its endpoints."
        ),
    ):
        command = option(command)
    return command


def under(port: Port, conditions: Path | None, node: str) -> Port | FaultyPort:
    """The port itself, or the port under the conditions of a file."""
    return port if conditions is None else FaultyPort(port, read_conditions(conditions), node)
