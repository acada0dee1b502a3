"""Several boards against one: the same users and the same seed, with and without the death of a board.

    python -m benchmarks.shards [--users 1000000] [--shards 4] [--protocol two-round-tuned] [--write] [--json]

Whole runs over real sockets with everything on record (Kendall's tau of 16 x 16 levels, eps = 1), with the same user
nodes. `seconds` are from the start of the first process to the end of the last, `rounds` from the first broadcast to
the result. Memory is that of all processes together, shared pages counted once, and the largest resident size of any
one. In the last row the board of the second shard is killed in the first round. With --write the table goes to
docs/shards.md.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.page import PAGE, machine, table, write_block
from benchmarks.watcher import LOOK_SECONDS, forked, look
from parley.emulator.coins import key_from_seed
from parley.emulator.record.shards import read_run
from parley.emulator.record.summary import summarize
from parley.emulator.wire.messages import Result
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

SHARDS_PAGE = PAGE.with_name("shards.md")
PROCESSES = 4
HEADS = ("boards", "killed", "users", "seconds", "rounds s", "all MiB", "largest MiB", "record MB", "estimate", "same")
KILL = '[[fault]]\nkind = "kill"\nnodes = "board-1"\nrounds = [1]\n'


@dataclass(frozen=True, kw_only=True)
class Run:
    """One whole run; `same`: its estimate has the bits of the first."""

    boards: int
    killed: str
    users: int
    seconds: float
    rounds_seconds: float
    all_mebibytes: float
    largest_mebibytes: float
    record_megabytes: float
    estimate: float
    same: bool = True

    def row(self) -> tuple[object, ...]:
        return tuple(repr(value) if name == "estimate" else value for name, value in asdict(self).items())


@contextmanager
def watched(found: dict[str, float]) -> Iterator[None]:
    """Inside, the largest figures of the forked processes are kept."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(LOOK_SECONDS):
            figures = [each for pid in forked() if (each := look(pid))]
            found["all"] = max(found.get("all", 0.0), sum(each["share"] for each in figures))
            found["largest"] = max(found.get("largest", 0.0), *(each["peak"] for each in figures), 0.0)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def run(users: int, shards: int, protocol: str, *, kill: bool = False, levels: str = "16x16") -> Run:
    """Start everybody, wait for the end, read the records."""
    workload = make_workload("kendall", levels, None)
    spoken = design(protocol, workload, epsilon=1.0, users=users)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        conditions = Path(name) / "kill.toml"
        conditions.write_text(KILL)
        layout = Layout(
            protocol=spoken,
            inputs=inputs,
            key=key_from_seed(1),
            processes=max(PROCESSES, shards),
            shards=shards,
            repeatable=True,
            conditions=conditions if kill else None,
        )
        home = RunFolder(run="shards", path=Path(name) / "run", default=False)
        began = time.perf_counter()
        with watched(found):
            Cluster(layout, home, Progress(sys.stderr)).run()
        seconds = time.perf_counter() - began
        summary = summarize(read_run(home.transcript))
        records = home.path.rglob(home.transcript.name)
        assert isinstance(summary.ending, Result)
        return Run(
            boards=max(1, shards),
            killed="board-1" if kill else "-",
            users=users,
            seconds=seconds,
            rounds_seconds=summary.ended - summary.rounds[0].opened,
            all_mebibytes=found["all"],
            largest_mebibytes=found["largest"],
            record_megabytes=sum(each.stat().st_size for each in records) / 1e6,
            estimate=summary.ending.estimate,
        )


@click.command()
@click.option("--users", default=1_000_000, show_default=True)
@click.option("--shards", default=4, show_default=True)
@click.option("--protocol", default="two-round-tuned", show_default=True)
@click.option("--write", is_flag=True)
@click.option("--json", "as_json", is_flag=True)
def main(users: int, shards: int, protocol: str, write: bool, as_json: bool) -> None:
    load = os.getloadavg()[0]
    runs = [run(users, 0, protocol), run(users, shards, protocol), run(users, shards, protocol, kill=True)]
    runs = [Run(**{**asdict(each), "same": each.estimate == runs[0].estimate}) for each in runs]
    text = table(HEADS, [each.row() for each in runs])
    if write:
        command = f"python -m benchmarks.shards --users {users} --shards {shards} --protocol {protocol} --write"
        write_block("boards", text, SHARDS_PAGE)
        write_block("machine", machine(command, load), SHARDS_PAGE)
    click.echo(json.dumps([asdict(each) for each in runs], indent=2) if as_json else text)


if __name__ == "__main__":
    main()
