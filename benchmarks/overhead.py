"""What Parley adds: the wall-clock of a whole run over that of the same work done bare.

    python -m benchmarks.overhead [--users 200000] [--levels 16x16] [--processes 2] [--write] [--json]

Bare work is what anybody would write to get the same estimate from the same number of processes: coins, randomizer and
decoder of the protocol itself, columns as raw bytes through pyzmq PUSH and PULL, broadcasts back; no messages, no
board, no record, no hash, no journal, no launcher. Both clocks run from before the first process is started to the
estimate, and both estimates must be equal; `rounds` leaves the start out and counts from the first broadcast. A whole
run is `parley run` without its report. They take turns, and a ratio is that of the medians. `board` is a real board
that is sent ready-made frames as fast as it takes them.
"""

import json
import multiprocessing
import os
import pickle
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np
import zmq

from benchmarks.messages import make_load, measure_board
from benchmarks.page import machine, table, write_block
from parley.emulator.coins import coins, key_from_seed, nonce_from_key, question_of, terms_of
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Protocol
from parley.emulator.record.summary import summarize
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.consent import domain_of
from parley.emulator.wire.codec import pack, unpack
from parley.emulator.wire.messages import Announce, Result, Setup
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder
from parley.nodes.environment import SINGLE_THREADED
from parley.protocols.registry import build, design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

SPAWN = multiprocessing.get_context("spawn")
KEY = key_from_seed(1)
CHUNK = 4096
HEADS = (
    "users",
    "k",
    "processes",
    "run s",
    "bare s",
    "ratio",
    "rounds of the run s",
    "rounds bare s",
    "ratio of rounds",
    "ratio of processor time",
    "bytes per reply on record",
    "board, replies per second",
)


@dataclass(frozen=True, kw_only=True)
class Took:
    """Seconds from the start and from the first broadcast to the estimate, and what came out."""

    seconds: float
    rounds: float
    processor: float
    estimate: float
    bytes_a_reply: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One comparison."""

    users: int
    inputs: int
    processes: int
    run_seconds: float
    bare_seconds: float
    ratio: float
    run_rounds_seconds: float
    bare_rounds_seconds: float
    rounds_ratio: float
    processor_ratio: float
    bytes_a_reply: float
    board_replies_a_second: float
    load: float

    def row(self) -> tuple[object, ...]:
        whole = (self.users, self.inputs, self.processes, self.run_seconds, self.bare_seconds, self.ratio)
        rounds = (self.run_rounds_seconds, self.bare_rounds_seconds, self.rounds_ratio, self.processor_ratio)
        return (*whole, *rounds, self.bytes_a_reply, self.board_replies_a_second)


def bare_sender(plan: bytes, inputs: np.ndarray, first: int, up: str, down: str) -> None:
    """Answer each broadcast with the columns of all users, in chunks."""
    protocol = _built(plan)
    terms = terms_of(_setup(protocol))
    with zmq.Context() as context, context.socket(zmq.PUSH) as inbox, context.socket(zmq.PULL) as feed:
        inbox.connect(up)
        feed.connect(down)
        inbox.send(b"here")
        for number, step in enumerate(protocol.rounds, 1):
            public = pickle.loads(feed.recv())
            question = question_of(terms, Announce(run="bare", round=number, broadcast=public))
            for start in range(0, len(inputs), CHUNK):
                part = inputs[start : start + CHUNK]
                flips = coins(KEY, question, first + start, len(part), step.coins)
                speaking = step.participates(np.arange(first + start, first + start + len(part)))
                own = np.flatnonzero(speaking) + first + start
                columns = step.respond(public, part[speaking], flips[speaking], own)
                inbox.send(b"".join(column.tobytes() for column in columns.values()))


def _setup(protocol: Protocol) -> Setup:
    """What both are asked: the same question gives the same coins."""
    claim = protocol.claim
    return Setup(
        run="bare",
        protocol=protocol.name,
        parameters=protocol.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        version=protocol.version,
        domain=domain_of(protocol.inputs),
        nonce=nonce_from_key(KEY),
    )


def _built(plan: bytes) -> Protocol:
    described = unpack(plan)
    return build(described["protocol"], described["parameters"])


def processor_seconds() -> float:
    """What this process and all its children that have ended have computed."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def bare(protocol: Protocol, inputs: np.ndarray, processes: int) -> Took:
    """The bare work."""
    plan = pack({"protocol": protocol.name, "parameters": protocol.parameters()})
    began, computed = time.perf_counter(), processor_seconds()
    with zmq.Context() as context, context.socket(zmq.PULL) as inbox:
        up = f"tcp://127.0.0.1:{inbox.bind_to_random_port('tcp://127.0.0.1')}"
        feeds, senders, chunks = [], [], 0
        for part in np.array_split(np.arange(len(inputs)), processes):
            feed = context.socket(zmq.PUSH)
            down = f"tcp://127.0.0.1:{feed.bind_to_random_port('tcp://127.0.0.1')}"
            mine = inputs[part[0] : part[-1] + 1]
            feeds.append(feed)
            senders.append(SPAWN.Process(target=bare_sender, args=(plan, mine, int(part[0]), up, down)))
            senders[-1].start()
            chunks += -(-len(mine) // CHUNK)
        try:
            for _ in senders:
                inbox.recv()
            opened = time.perf_counter()
            value = _collect(_built(plan), inbox, feeds, chunks)
            rounds = time.perf_counter() - opened
        finally:
            for sender in senders:
                sender.join()
            for feed in feeds:
                feed.close(0)
    seconds = time.perf_counter() - began
    return Took(seconds=seconds, rounds=rounds, processor=processor_seconds() - computed, estimate=value)


def _collect(protocol: Protocol, inbox: "zmq.Socket[bytes]", feeds: list["zmq.Socket[bytes]"], chunks: int) -> float:
    analysis = Analysis(protocol)
    conclusion: Broadcast | Estimate = analysis.open()
    for step in protocol.rounds:
        public = conclusion
        assert not isinstance(public, Estimate)
        for feed in feeds:
            feed.send(pickle.dumps(public))
        tally = None
        for _ in range(chunks):
            frame, start, columns = inbox.recv(), 0, {}
            size = sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in step.reply.values())
            rows = len(frame) // size
            for name, (dtype, shape) in step.reply.items():
                count = rows * int(np.prod(shape))
                columns[name] = np.frombuffer(frame, dtype, count, start).reshape(rows, *shape)
                start += count * dtype.itemsize
            found = step.tally(public, columns)
            tally = found if tally is None else tally + found
        assert tally is not None
        conclusion = analysis.hear(public, tally)
    assert isinstance(conclusion, Estimate)
    return conclusion.value


def whole(protocol: Protocol, inputs: np.ndarray, processes: int) -> Took:
    """A run."""
    layout = Layout(protocol=protocol, inputs=inputs, key=KEY, processes=processes, repeatable=True)
    with tempfile.TemporaryDirectory() as name:
        home = RunFolder(run="overhead", path=Path(name) / "run", default=False)
        began, computed = time.perf_counter(), processor_seconds()
        Cluster(layout, home, Progress(sys.stderr)).run()
        seconds, processor = time.perf_counter() - began, processor_seconds() - computed
        summary = summarize(TranscriptReader(home.transcript))
        assert isinstance(summary.ending, Result)
        size = home.transcript.stat().st_size / summary.sent.total()
        took = {"seconds": seconds, "rounds": summary.ended - summary.rounds[0].opened, "processor": processor}
        return Took(**took, estimate=summary.ending.estimate, bytes_a_reply=size)


def compare(users: int, levels: str, processes: int, repeats: int, protocol: str = "three-round") -> Figures:
    """Whole runs and bare work in turn."""
    load = os.getloadavg()[0]
    workload = make_workload("kendall", levels, None)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    spoken = design(protocol, workload, epsilon=4.0, users=users)
    runs, bares = [], []
    for _ in range(repeats):
        runs.append(whole(spoken, inputs, processes))
        bares.append(bare(spoken, inputs, processes))
        same = runs[-1].estimate == bares[-1].estimate
        assert same, f"{runs[-1].estimate} is not {bares[-1].estimate}: both did not do the same work"
    run, plain = (statistics.median(each.seconds for each in took) for took in (runs, bares))
    run_rounds, plain_rounds = (statistics.median(each.rounds for each in took) for took in (runs, bares))
    work, plain_work = (statistics.median(each.processor for each in took) for took in (runs, bares))
    return Figures(
        users=users,
        inputs=workload.size,
        processes=processes,
        run_seconds=run,
        bare_seconds=plain,
        ratio=run / plain,
        run_rounds_seconds=run_rounds,
        bare_rounds_seconds=plain_rounds,
        rounds_ratio=run_rounds / plain_rounds,
        processor_ratio=work / plain_work,
        bytes_a_reply=runs[-1].bytes_a_reply,
        board_replies_a_second=board_rate(users, processes),
        load=load,
    )


def board_rate(users: int, processes: int) -> float:
    """Replies a second of a real board that is sent ready-made frames of columns."""
    load = make_load(min(users, 200_000), processes, single=False)
    with tempfile.TemporaryDirectory() as name:
        return load.users * load.protocol.claim.rounds / measure_board(load, Path(name))


@click.command()
@click.option("--users", default="20000,200000", show_default=True, help="One number of users or several with commas.")
@click.option("--levels", default="16x16", show_default=True, help="Levels of the statistic (Kendall's tau).")
@click.option("--processes", default=2, show_default=True, help="User nodes.")
@click.option("--repeats", default=3, show_default=True, help="Runs of each; medians count.")
@click.option("--write", is_flag=True, help="Put the table into docs/performance.md.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of records.")
def main(users: str, levels: str, processes: int, repeats: int, write: bool, as_json: bool) -> None:
    """Measure whole runs against bare work."""
    os.environ.update(SINGLE_THREADED)
    found = [compare(int(each), levels, processes, repeats) for each in users.split(",")]
    text = table(HEADS, [each.row() for each in found])
    if write:
        command = f"python -m benchmarks.overhead --users {users} --write"
        write_block("overhead", f"{text}\n\n{machine(command, found[0].load)}")
    click.echo(json.dumps([asdict(each) for each in found], indent=2) if as_json else text)


if __name__ == "__main__":
    main()
