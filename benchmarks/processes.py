"""A process for every user: seconds from start to end, and what one such process costs.

    python -m benchmarks.processes [--users 1000,4000] [--levels 4x4] [--relays R] [--write] [--json]

Each user is a process forked from one warm process, three rounds are spoken over real sockets, everything is on record.
Relays stand between users and board where these are more than a board may have open files for.
`own` is memory that only the one process has (its private pages), `share` its proportional share of all pages; both are
the largest seen while the run went on, the median over a few processes. `machine` is by how much the machine's free
memory went down, divided by the processes: page tables, stacks and sockets in the kernel included. `processor` is the
time one such process spent computing, in all its threads, `total` that of every process of the run: on a machine with
c cores and nothing else to do, a run takes little more than its c-th part. With --write the table goes to the page
docs/performance.md.
"""

import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.page import machine, table, write_block
from benchmarks.watcher import Watcher, available
from parley.emulator.coins import key_from_seed
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.transport.addresses import descriptors_for
from parley.emulator.wire.messages import Close, Message, Reminder, Roster
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

REST_SECONDS = 3.0
REST_MEBIBYTES = 16.0
HEADS = (
    "processes",
    "relays",
    "seconds",
    "processor s, total",
    "all ready after s",
    "rounds",
    "reminders",
    "own MiB",
    "share MiB",
    "machine MiB",
    "processor ms",
    "switches",
    "board MiB",
    "load",
)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What one run took."""

    users: int
    relays: int
    seconds: float
    processor_seconds: float
    ready_seconds: float
    rounds_seconds: tuple[float, ...]
    reminders: int
    own_mebibytes: float
    share_mebibytes: float
    machine_mebibytes: float
    processor_milliseconds: float
    switches: float
    board_mebibytes: float
    load: float

    def row(self) -> tuple[object, ...]:
        rounds = ", ".join(f"{seconds:.2f}" for seconds in self.rounds_seconds)
        return (
            self.users,
            self.relays,
            self.seconds,
            self.processor_seconds,
            self.ready_seconds,
            rounds,
            self.reminders,
            self.own_mebibytes,
            self.share_mebibytes,
            self.machine_mebibytes,
            self.processor_milliseconds,
            self.switches,
            self.board_mebibytes,
            self.load,
        )


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a record says about the course of a run."""

    ready: float
    rounds: tuple[float, ...]
    reminders: int


def rest() -> None:
    """Until the kernel has taken back what the last run held."""
    before = float("-inf")
    while (now := available()) > before + REST_MEBIBYTES:
        before = now
        time.sleep(REST_SECONDS)


def measure(users: int, levels: str, protocol: str = "three-round", relays: int = 0) -> Figures:
    """One run with a process for every user."""
    rest()
    load = os.getloadavg()[0]
    workload = make_workload("kendall", levels, None)
    layout = Layout(
        protocol=design(protocol, workload, epsilon=4.0, users=users),
        inputs=synthetic.draw("correlated", workload, users, np.random.default_rng(1)),
        key=key_from_seed(1),
        processes=users,
        join_deadline=600.0,
        relays=relays,
    )
    with tempfile.TemporaryDirectory() as name, Watcher() as watcher:
        home = RunFolder(run="processes", path=Path(name) / "run", default=False)
        began, wall, computed = time.time(), time.perf_counter(), children_seconds()
        Cluster(layout, home, Progress(sys.stderr)).run()
        seconds, processor = time.perf_counter() - wall, children_seconds() - computed
        course = read_course(home.transcript, began)
    return Figures(
        users=users,
        relays=relays,
        seconds=seconds,
        processor_seconds=processor,
        ready_seconds=course.ready,
        rounds_seconds=course.rounds,
        reminders=course.reminders,
        own_mebibytes=watcher.of("node", "own"),
        share_mebibytes=watcher.of("node", "share"),
        machine_mebibytes=watcher.taken / users,
        processor_milliseconds=watcher.of("node", "processor"),
        switches=watcher.of("node", "switches"),
        board_mebibytes=watcher.of("board", "peak"),
        load=load,
    )


def relays_for(users: int) -> int:
    """As many relays as the limit of open files calls for."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY or descriptors_for(users) <= hard:
        return 0
    return next(relays for relays in range(2, users) if descriptors_for(-(-users // relays)) <= hard)


def children_seconds() -> float:
    """What all processes of earlier runs have computed, kernel included."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def read_course(transcript: Path, began: float) -> Course:
    """When everybody was there, how long each round took, and how often somebody had to be asked again."""
    ready, opened, rounds, reminders = 0.0, 0.0, list[float](), 0
    for record in TranscriptReader(transcript):
        message: Message = record.message
        reminders += isinstance(message, Reminder)
        if isinstance(message, Roster):
            ready = opened = record.time - began
        elif isinstance(message, Close):
            rounds.append(record.time - began - opened)
            opened = record.time - began
    return Course(ready=ready, rounds=tuple(rounds), reminders=reminders)


@click.command()
@click.option("--users", default="1000", show_default=True, help="One number of users or several with commas.")
@click.option("--levels", default="4x4", show_default=True, help="Levels of the statistic (Kendall's tau).")
@click.option("--relays", type=int, help="Relays between users and board.  [default: as many as are needed]")
@click.option("--write", is_flag=True, help="Put the table into docs/performance.md.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of records.")
def main(users: str, levels: str, relays: int | None, write: bool, as_json: bool) -> None:
    """Measure runs with a process for every user."""
    found = [
        measure(count, levels, relays=relays_for(count) if relays is None else relays)
        for count in map(int, users.split(","))
    ]
    text = table(HEADS, [each.row() for each in found])
    said = machine(f"python -m benchmarks.processes --users {users} --write", found[0].load)
    if write:
        write_block("processes", f"{text}\n\n{said}")
    click.echo(json.dumps([asdict(each) for each in found], indent=2) if as_json else text)


if __name__ == "__main__":
    main()
