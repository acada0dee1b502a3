"""Messages a second and bytes a reply of a real board, on record, against a bare PUSH/PULL loop with the same frames.

    python benchmarks/messages.py [--users N] [--single N] [--processes P] [--json]

Three measurements in one go, on one machine, with the reply frames of one three-round Kendall conversation:

* run: `parley run` itself, user nodes computing their replies (frames in columns);
* board: a real board and a real analyst, but the replies were computed beforehand and are sent as fast as they go;
* bare: the same frames from as many processes through PUSH to one PULL that counts them and does nothing else.

"columns" frames hold up to 4,096 replies each, "single" frames one. Rates are of replies, from the broadcast on record
to the last reply on record, over all rounds. The ratio is board / bare.
"""

import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Event as Signal
from pathlib import Path
from typing import Any

import click
import numpy as np
import zmq

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.protocol import Protocol
from parley.emulator.record.summary import summarize
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.simulate import conversation
from parley.emulator.transport.ports import BROADCAST
from parley.emulator.wire.codec import decode, encode, open_envelope, pack, unpack
from parley.emulator.wire.messages import Announce, Ready, Reminder, Replies, Result
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.processes.processes import CommandLine, Processes
from parley.launch.results.folder import RunFolder
from parley.launch.results.progress import Progress
from parley.nodes.analyst import write_plan
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

RUN = "benchmark"
SPAWN = multiprocessing.get_context("spawn")
KEY = key_from_seed(1)
WAIT_SECONDS = 300
FEWEST_FRAMES = 10_000


@dataclass(frozen=True, kw_only=True)
class Load:
    """A protocol, and what each node says in each round, as frames."""

    protocol: Protocol
    inputs: np.ndarray
    ready: dict[str, bytes]
    frames: dict[str, dict[int, list[bytes]]]

    @property
    def users(self) -> int:
        return len(self.inputs)

    @property
    def everything(self) -> list[bytes]:
        return [frame for rounds in self.frames.values() for said in rounds.values() for frame in said]


def make_load(users: int, processes: int, *, single: bool) -> Load:
    """The replies of a whole conversation, in columns or each in a frame of its own."""
    workload = make_workload("kendall", "8x8", None)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    protocol = design("three-round", workload, epsilon=4.0, users=users)
    ready: dict[str, bytes] = {}
    frames: dict[str, dict[int, list[bytes]]] = {}
    for _, message in conversation(protocol, inputs, KEY, run=RUN, nodes=processes):
        if isinstance(message, Ready):
            ready[message.node] = encode(message)
        elif isinstance(message, Replies):
            said = frames.setdefault(message.node, {}).setdefault(message.round, [])
            said += [encode(each) for each in (_apart(message, decode_ready(ready)) if single else [message])]
    return Load(protocol=protocol, inputs=inputs, ready=ready, frames=frames)


def decode_ready(ready: dict[str, bytes]) -> dict[str, Ready]:
    found = {}
    for name, frame in ready.items():
        message = decode(frame)
        assert isinstance(message, Ready)
        found[name] = message
    return found


def _apart(message: Replies, seats: dict[str, Ready]) -> Iterator[Replies]:
    """One message a user; the chunk is the user's place in its cohort."""
    seat = seats[message.node]
    for row, user in enumerate(message.users):
        columns = {name: column[row : row + 1] for name, column in message.columns.items()}
        place = int(user) - seat.first
        yield replace(message, chunk=place, chunks=seat.users, users=message.users[row : row + 1], columns=columns)


def send_bare(file: str, endpoint: str, times: int, go: Signal) -> None:
    """A sender that is connected, waits for the sign, and pushes all its frames."""
    _, frames = unpack(Path(file).read_bytes())
    with zmq.Context() as context, context.socket(zmq.PUSH) as inbox:
        inbox.connect(endpoint)
        inbox.send(b"here")
        go.wait()
        for _ in range(times):
            for said in frames.values():
                for frame in said:
                    inbox.send(frame)


def send_to_board(file: str, addresses: str) -> None:
    """A user node without a user: says ready, and its frames when their round is announced."""
    ready, frames = unpack(Path(file).read_bytes())
    channels = json.loads(Path(addresses).read_text())
    with zmq.Context() as context, context.socket(zmq.PUSH) as inbox, context.socket(zmq.SUB) as feed:
        feed.subscribe(BROADCAST)
        feed.connect(channels["feed"])
        inbox.connect(channels["inbox"])
        inbox.send(ready)
        spoken: set[int] = set()
        while True:
            if not feed.poll(500):
                inbox.send(ready)
                continue
            message = decode(open_envelope(feed.recv()[len(BROADCAST) :])[2])
            if isinstance(message, Result):
                return
            if isinstance(message, Announce | Reminder) and message.round not in spoken:
                spoken.add(message.round)
                for frame in frames[str(message.round)]:
                    inbox.send(frame)


@contextmanager
def senders(load: Load, folder: Path, target: Any, *arguments: Any) -> Iterator[None]:
    """One process a node, each with its frames in a file."""
    running = []
    for name, rounds in load.frames.items():
        file = folder / f"{target.__name__}-{name}"
        file.write_bytes(pack([load.ready[name], {str(number): said for number, said in rounds.items()}]))
        running.append(SPAWN.Process(target=target, args=(str(file), *arguments)))
    for each in running:
        each.start()
    try:
        yield
        for each in running:
            each.join(WAIT_SECONDS)
    finally:
        for each in running:
            each.kill()


def measure_bare(load: Load, folder: Path) -> float:
    """Seconds for all frames once; a few large frames are sent many times over, for they take no time at all."""
    times = max(1, FEWEST_FRAMES // len(load.everything))
    with zmq.Context() as context, context.socket(zmq.PULL) as inbox:
        port = inbox.bind_to_random_port("tcp://127.0.0.1")
        go = SPAWN.Event()
        with senders(load, folder, send_bare, f"tcp://127.0.0.1:{port}", times, go):
            for _ in load.frames:
                inbox.recv()
            started = time.perf_counter()
            go.set()
            for _ in range(times * len(load.everything)):
                inbox.recv()
            return (time.perf_counter() - started) / times


def measure_board(load: Load, folder: Path) -> float:
    """Seconds of open rounds, from a real board's record."""
    transcript, addresses, plan = folder / "board.parley", folder / "addresses.json", folder / "plan"
    write_plan(plan, load.protocol)
    board = ("--users", load.users, "--nodes", len(load.ready), "--transcript", transcript, "--addresses", addresses)
    # The replies were drawn in advance, for the question with this nonce.
    board = (*board, "--nonce", nonce_from_key(KEY).hex())
    with Processes() as processes:
        processes.spawn([_command_line("board", folder, "--run", RUN, *board)])
        while not addresses.exists():
            assert not processes.exits(0.01), (folder / "board.log").read_text()
        processes.spawn([_command_line("analyst", folder, "--run", RUN, "--addresses", addresses, "--plan", plan)])
        with senders(load, folder, send_to_board, str(addresses)):
            while "board" in processes.running:
                for ended in processes.exits(1.0):
                    assert ended.status == 0, (folder / f"{ended.name}.log").read_text()
    return open_seconds(transcript, load.users)


def _command_line(node: str, folder: Path, *arguments: Any) -> CommandLine:
    return CommandLine(name=node, node=node, arguments=tuple(map(str, arguments)), log=folder / f"{node}.log")


def measure_run(load: Load, folder: Path) -> float:
    """Seconds of open rounds of `parley run`."""
    layout = Layout(protocol=load.protocol, inputs=load.inputs, key=KEY, processes=len(load.ready))
    home = RunFolder(run=RUN, path=folder / "run", default=False)
    Cluster(layout, home, Progress(sys.stderr)).run()
    return open_seconds(home.transcript, load.users)


def open_seconds(transcript: Path, users: int) -> float:
    """Time from each broadcast to the last reply to it; every user must be on record in every round."""
    rounds = summarize(TranscriptReader(transcript)).rounds
    heard = sum(each.replies for each in rounds)
    assert heard == len(rounds) * users, f"{heard} replies of {len(rounds) * users} are on record"
    return sum(each.arrivals[-1][0] - each.opened for each in rounds)


def measure(load: Load, *, whole: bool) -> dict[str, Any]:
    """All figures for one kind of frame."""
    frames = load.everything
    replies = load.users * load.protocol.claim.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare, board = measure_bare(load, folder), measure_board(load, folder)
        run = measure_run(load, folder) if whole else None
    return {
        "users": load.users,
        "processes": len(load.ready),
        "frames": len(frames),
        "bytes_a_reply": sum(map(len, frames)) / replies,
        "bare_frames_a_second": len(frames) / bare,
        "bare_replies_a_second": replies / bare,
        "board_frames_a_second": len(frames) / board,
        "board_replies_a_second": replies / board,
        "ratio": bare / board,
        "run_replies_a_second": None if run is None else replies / run,
    }


@click.command()
@click.option("--users", default=100_000, show_default=True, help="Users whose replies travel in columns.")
@click.option("--single", default=20_000, show_default=True, help="Users whose replies travel one by one.")
@click.option("--processes", default=4, show_default=True, help="Sending processes.")
@click.option("--json", "as_json", is_flag=True, help="Print one record of JSON.")
def main(users: int, single: int, processes: int, as_json: bool) -> None:
    """Measure what judging, recording and delivering cost."""
    found = {
        "columns": measure(make_load(users, processes, single=False), whole=True),
        "single": measure(make_load(single, processes, single=True), whole=False),
    }
    found["columns"]["users_against_bare_single"] = (
        found["columns"]["board_replies_a_second"] / found["single"]["bare_replies_a_second"]
    )
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    for kind, figures in found.items():
        click.echo(kind)
        for name, value in figures.items():
            click.echo(f"  {name:<28} {'-' if value is None else f'{value:,.2f}'}")


if __name__ == "__main__":
    main()
