"""The arithmetic of docs/scaling.md: what 1e8 users would cost, from costs that are measured here and now.

    python -m benchmarks.scaling [--users 100000000] [--hosts 100] [--cores 16] [--check 200000] [--write]

Costs a reply come from `benchmarks.growth.where` (one process, processor time), rates of a board from real boards that
are sent ready-made frames. The same arithmetic is done for a run that is then made for real, and both are shown.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.growth import CHUNK, Where, run, where
from benchmarks.messages import make_load, measure_board
from benchmarks.page import PAGE, machine, table, write_block
from parley.nodes.environment import SINGLE_THREADED

LEVELS = "16x16"
# What a board is sent, too. Runs of the tuned protocols are made for real (docs/performance.md).
PROTOCOL = "three-round"
GIGABYTE = 1e9
SCALING = PAGE.with_name("scaling.md")
# A board holds two connections a node; this many descriptors is what a process may be given without special care.
CONNECTIONS_A_BOARD = 20_000
MINUTES_ALLOWED = 10


@dataclass(frozen=True, kw_only=True)
class Board:
    """What one board does with frames of a kind."""

    frames_a_second: float
    replies_a_second: float
    bytes_a_reply: float


def board(users: int, *, single: bool) -> Board:
    """A real board and a real analyst; replies in columns or one a frame."""
    load = make_load(users, 2, single=single)
    with tempfile.TemporaryDirectory() as name:
        seconds = measure_board(load, Path(name))
        size = (Path(name) / "board.parley").stat().st_size
    replies = users * load.protocol.claim.rounds
    return Board(
        frames_a_second=len(load.everything) / seconds,
        replies_a_second=replies / seconds,
        bytes_a_reply=size / replies,
    )


def plan(users: int, hosts: int, cores: int, costs: Where, rates: Board) -> list[tuple[str, str, float]]:
    """Quantity, formula, number."""
    replies = users * costs.replies / costs.users
    encode = replies * costs.encode / costs.replies
    return [
        ("replies", "users x replies per user", replies),
        ("transcript, GB", "replies x bytes per reply", replies * rates.bytes_a_reply / GIGABYTE),
        ("encode, core-hours", "replies x encode", encode / 3600),
        ("encode, seconds", "... / (hosts x cores)", encode / (hosts * cores)),
        ("one board, seconds", "replies / its rate in columns", replies / rates.replies_a_second),
        ("one analyst, seconds", "replies x decode + solve", replies * costs.decode / costs.replies + costs.solve),
        ("frames", "replies / 4096", replies / CHUNK),
        ("connections at the board, one node per core", "2 x hosts x cores", 2.0 * hosts * cores),
        ("the same with one relay per host", "2 x hosts", 2.0 * hosts),
    ]


def crowd(users: int, rates: Board, rounds: float) -> list[tuple[str, str, float]]:
    """The same if every user is a node of its own."""
    frames = users * rounds
    seconds = frames / rates.frames_a_second
    relays = users / (CONNECTIONS_A_BOARD / 2)
    return [
        ("connections at one board", "2 x users", 2.0 * users),
        ("relays, each at its connection limit", "users / 10,000", relays),
        ("connections at the board through relays", "2 x relays", 2.0 * relays),
        ("one board, hours", "frames / its rate of single frames", seconds / 3600),
        (f"boards for {MINUTES_ALLOWED} minutes of rounds", "", seconds / (60 * MINUTES_ALLOWED)),
        ("transcript, GB", "frames x bytes of a recorded frame", frames * rates.bytes_a_reply / GIGABYTE),
    ]


def check(users: int, costs: Where) -> list[tuple[object, ...]]:
    """A run that can be made here: what the arithmetic says, and what it took."""
    cores = os.cpu_count() or 1
    work = costs.encode + costs.wire + costs.record + costs.decode
    said = users * work / costs.users / cores + costs.solve
    found = run(users, LEVELS, cores, costs.protocol)
    return [(users, costs.protocol, cores, said, found.rounds_seconds, found.rounds_seconds / said)]


@click.command()
@click.option("--users", default=100_000_000, show_default=True)
@click.option("--hosts", default=100, show_default=True)
@click.option("--cores", default=16, show_default=True, help="Cores of each host.")
@click.option("--check", "checked", default=200_000, show_default=True, help="Users of the run that is really made.")
@click.option("--write", is_flag=True, help="Put the tables into docs/scaling.md.")
def main(users: int, hosts: int, cores: int, checked: int, write: bool) -> None:
    """Work out a big run from measured costs."""
    os.environ.update(SINGLE_THREADED)
    load = os.getloadavg()[0]
    costs = where(LEVELS, PROTOCOL, 8 * CHUNK)
    columns, single = board(checked, single=False), board(min(checked, 10_000), single=True)
    texts = {
        "plan": table(("", "formula", PROTOCOL), plan(users, hosts, cores, costs, columns)),
        "crowd": table(("", "formula", PROTOCOL), crowd(users, single, costs.replies / costs.users)),
        "check": table(("users", "protocol", "cores", "arithmetic s", "measured s", "ratio"), check(checked, costs)),
    }
    said = machine(f"python -m benchmarks.scaling --users {users} --hosts {hosts} --cores {cores} --write", load)
    for name, text in texts.items():
        click.echo(f"{name}\n{text}\n")
        if write:
            write_block(name, text, SCALING)
    if write:
        write_block("machine", said, SCALING)


if __name__ == "__main__":
    main()
