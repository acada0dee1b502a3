"""How time and memory grow with users, inputs and processes, and where the time goes.

    python -m benchmarks.growth [--most 1000000] [--write] [--json]

Whole runs over real sockets with everything on record (Kendall's tau, eps = 4): n users at k = 256, k inputs at a fixed
number of users, and the same users in more and more processes. `seconds` are from the start of the first process to
the end of the last, `rounds` from the first broadcast to the result; memory is the largest resident size of any one
process of each kind. The table of where the time goes is taken in one process, frame by frame: microseconds of
processor time per reply, summed over the rounds. With --write the figure goes to docs/performance.md.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import click
import numpy as np
import zmq

from benchmarks.page import IMAGES, machine, table, write_block
from benchmarks.watcher import Watcher
from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Protocol
from parley.emulator.record.summary import summarize
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.round import Tally
from parley.emulator.wire.codec import decode, encode, envelope, open_envelope
from parley.emulator.wire.messages import Replies
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder
from parley.nodes.environment import SINGLE_THREADED
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given")
KEY = key_from_seed(1)
USERS = (1000, 10_000, 100_000, 1_000_000)
LEVELS = ("4x4", "8x8", "16x16", "32x32", "64x64")
USERS_FOR_INPUTS = 20_000
PROCESSES = (1, 2, 4, 8)
USERS_FOR_PROCESSES = 100_000
CHUNK = 4096
PROTOCOLS = ("three-round", "two-round-tuned")
RUN_HEADS = (
    "users",
    "k",
    "processes",
    "protocol",
    "seconds",
    "rounds s",
    "node MiB",
    "board MiB",
    "analyst MiB",
    "B per reply",
)
WHERE_HEADS = ("k", "protocol", "encode us", "wire us", "record us", "decode us", "solve ms per run")


@dataclass(frozen=True, kw_only=True)
class Run:
    """One whole run."""

    users: int
    inputs: int
    processes: int
    protocol: str
    seconds: float
    rounds_seconds: float
    node_mebibytes: float
    board_mebibytes: float
    analyst_mebibytes: float
    bytes_a_reply: float
    load: float

    def row(self) -> tuple[object, ...]:
        return tuple(value for name, value in asdict(self).items() if name != "load")


@dataclass(kw_only=True)
class Where:
    """Seconds of processor time for some users' replies in all rounds, and for the analyst's conclusions."""

    inputs: int
    protocol: str
    users: int
    replies: int = 0
    encode: float = 0.0
    wire: float = 0.0
    record: float = 0.0
    decode: float = 0.0
    solve: float = 0.0

    def time(
        self, part: str, work: Callable[Arguments, Given], *given: Arguments.args, **named: Arguments.kwargs
    ) -> Given:
        """Do some work and add its processor time to a part."""
        began = time.process_time()
        result = work(*given, **named)
        setattr(self, part, getattr(self, part) + time.process_time() - began)
        return result

    def row(self) -> tuple[object, ...]:
        parts = (self.encode, self.wire, self.record, self.decode)
        return (self.inputs, self.protocol, *(part / self.replies * 1e6 for part in parts), self.solve * 1e3)


def run(users: int, levels: str, processes: int, protocol: str = "three-round") -> Run:
    """Start everybody, wait for the end, read the record."""
    load = os.getloadavg()[0]
    workload = make_workload("kendall", levels, None)
    spoken = design(protocol, workload, epsilon=4.0, users=users)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    layout = Layout(protocol=spoken, inputs=inputs, key=KEY, processes=processes)
    with tempfile.TemporaryDirectory() as name, Watcher() as watcher:
        home = RunFolder(run="growth", path=Path(name) / "run", default=False)
        began = time.perf_counter()
        Cluster(layout, home, Progress(sys.stderr)).run()
        seconds = time.perf_counter() - began
        summary = summarize(TranscriptReader(home.transcript))
        return Run(
            users=users,
            inputs=workload.size,
            processes=processes,
            protocol=protocol,
            seconds=seconds,
            rounds_seconds=summary.ended - summary.rounds[0].opened,
            node_mebibytes=watcher.of("node", "peak"),
            board_mebibytes=watcher.of("board", "peak"),
            analyst_mebibytes=watcher.of("analyst", "peak"),
            bytes_a_reply=home.transcript.stat().st_size / summary.sent.total(),
            load=load,
        )


def where(levels: str, protocol: str, users: int = 2 * CHUNK) -> Where:
    """The whole way of every frame, step by step, on one clock."""
    workload = make_workload("kendall", levels, None)
    spoken: Protocol = design(protocol, workload, epsilon=4.0, users=users)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    found = Where(inputs=workload.size, protocol=protocol, users=users)
    analysis = Analysis(spoken)
    public: Broadcast | Estimate = analysis.open()
    with (
        tempfile.TemporaryDirectory() as name,
        TranscriptWriter.create(Path(name) / "t", "where") as writer,
        zmq.Context() as context,
        context.socket(zmq.PULL) as here,
        context.socket(zmq.PUSH) as there,
    ):
        there.connect(f"tcp://127.0.0.1:{here.bind_to_random_port('tcp://127.0.0.1')}")
        for number, step in enumerate(spoken.rounds, 1):
            assert not isinstance(public, Estimate)
            tally: Tally | None = None
            for start in range(0, users, CHUNK):
                names = np.arange(start, start + CHUNK)
                speaking = step.participates(names)
                users_here = names[speaking]
                flips = found.time("encode", addressed, KEY, number, start, CHUNK, step.coins)
                columns = found.time("encode", step.respond, public, inputs[users_here], flips[speaking], users_here)
                said = Replies(
                    run="where", round=number, node="n", chunk=0, chunks=1, users=users_here, columns=columns
                )
                frame = found.time("wire", travel, said, there, here)
                found.time("record", writer.append, "n", frame, 0)
                arrived = found.time("wire", arrive, frame, there, here)
                # Seeds and folds that follow from a user's number did not travel.
                complete = found.time("decode", step.complete, public, arrived.users, arrived.columns)
                part = found.time("decode", step.tally, public, complete)
                tally = part if tally is None else tally + part
                found.replies += len(said.users)
            assert tally is not None
            public = found.time("solve", analysis.hear, public, tally)
    return found


def travel(said: Replies, there: "zmq.Socket[bytes]", here: "zmq.Socket[bytes]") -> bytes:
    """From the node to the board, which reads it."""
    there.send(encode(said))
    frame = here.recv()
    decode(frame)
    return frame


def arrive(frame: bytes, there: "zmq.Socket[bytes]", here: "zmq.Socket[bytes]") -> Replies:
    """From the board to the analyst, who reads it."""
    there.send(envelope(1, "n", frame))
    message = decode(open_envelope(here.recv())[2])
    assert isinstance(message, Replies)
    return message


def figure(by_users: list[Run], by_inputs: list[Run], by_processes: list[Run], path: Path) -> None:
    """Three pictures in one: time and memory against n, against k, against processes, all on logarithmic axes."""
    from matplotlib import rcParams
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "parley"
    picture = Figure(figsize=(12, 4), layout="constrained")
    FigureCanvasSVG(picture)
    panels = picture.subplots(1, 3)
    across = (("users n (k = 256)", by_users, "users"), ("inputs k", by_inputs, "inputs"))
    for panel, (label, runs, name) in zip(panels, (*across, ("processes", by_processes, "processes")), strict=True):
        for protocol in dict.fromkeys(each.protocol for each in runs):
            mine = [each for each in runs if each.protocol == protocol]
            places = [getattr(each, name) for each in mine]
            panel.loglog(places, [each.seconds for each in mine], "o-", label=f"{protocol}, seconds")
            panel.loglog(places, [each.rounds_seconds for each in mine], "o--", label="rounds alone")
        largest = [max(each.node_mebibytes, each.board_mebibytes, each.analyst_mebibytes) for each in runs]
        panel.loglog([getattr(each, name) for each in runs], largest, "s:", color="gray", label="largest process, MiB")
        panel.set_xlabel(label)
        panel.grid(True, which="both", alpha=0.2)
        panel.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, format="svg", metadata={"Date": None})


def everything(most: int) -> dict[str, list[Run]]:
    """All whole runs."""
    users = [each for each in USERS if each <= most]
    return {
        "users": [run(n, "16x16", 2, name) for name in PROTOCOLS for n in users],
        "inputs": [run(min(most, USERS_FOR_INPUTS), levels, 2) for levels in LEVELS],
        "processes": [run(min(most, USERS_FOR_PROCESSES), "16x16", count) for count in PROCESSES],
    }


@click.command()
@click.option("--most", default=1_000_000, show_default=True, help="No run has more users.")
@click.option("--write", is_flag=True, help="Put the figure into docs/performance.md.")
@click.option("--json", "as_json", is_flag=True, help="Print one record.")
def main(most: int, write: bool, as_json: bool) -> None:
    """Measure growth."""
    os.environ.update(SINGLE_THREADED)
    load = os.getloadavg()[0]
    parts = [where(levels, name) for levels in ("8x8", "16x16", "32x32") for name in ("three-round", "two-round-tuned")]
    runs = everything(most)
    blocks = {
        "where": table(WHERE_HEADS, [each.row() for each in parts]),
        **{f"growth-{name}": table(RUN_HEADS, [each.row() for each in found]) for name, found in runs.items()},
    }
    if write:
        figure(runs["users"], runs["inputs"], runs["processes"], IMAGES / "growth.svg")
        write_block("growth", machine(f"python -m benchmarks.growth --most {most} --write", load, "matplotlib"))
    if as_json:
        kept = {name: [asdict(each) for each in found] for name, found in runs.items()}
        click.echo(json.dumps({**kept, "where": [asdict(each) for each in parts]}, indent=2))
    else:
        click.echo("\n\n".join(f"{name}\n{text}" for name, text in blocks.items()))


if __name__ == "__main__":
    main()
