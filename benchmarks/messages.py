"""Messages a second and bytes a reply of a real board, on record, against a bare PUSH/PULL loop with the same frames.

    python -m benchmarks.messages [--users N] [--single N] [--processes P] [--times T] [--before FOLDER] [--write]

Measured in one go, on one machine, with the reply frames of one three-round Kendall conversation:

* run: `parley run` itself, user nodes computing their replies (frames in columns);
* board: a real board and a real analyst, but the replies were computed beforehand and are sent as fast as they go;
* bare: the same frames from as many processes through PUSH to one PULL that counts them and does nothing else.

"columns" frames hold up to 4,096 replies each, "single" frames one; "signed" frames are single ones with the signatures
of their senders, at a board that signs too. Rates are of replies, from the broadcast on record to the close of its
round on record, over all rounds. The ratio is board / bare. Each is measured several times in turn and the fastest
counts, because others on a machine only make it slower.
`--before` names a checkout of another version, whose board and analyst take the same frames.
"""

import json
import multiprocessing
import os
import subprocess
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

from benchmarks.page import machine, table, write_block
from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.protocol import Protocol
from parley.emulator.record.summary import summarize
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.simulate import conversation
from parley.emulator.transport.ports import BROADCAST
from parley.emulator.wire.codec import decode, encode, open_envelope, pack, said_by, unpack
from parley.emulator.wire.messages import Announce, Ready, Reminder, Replies, Result
from parley.emulator.wire.security import write_signer
from parley.emulator.wire.signatures import Signer, derived
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder
from parley.nodes.analyst import write_plan
from parley.nodes.environment import child_environment
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

RUN = "benchmark"
SPAWN = multiprocessing.get_context("spawn")
KEY = key_from_seed(1)
NONCE = nonce_from_key(KEY)
ROOT = Path(__file__).resolve().parent.parent
WAIT_SECONDS = 300
FEWEST_FRAMES = 10_000


@dataclass(frozen=True, kw_only=True)
class Load:
    """A protocol, and what each node says in each round, as frames."""

    protocol: Protocol
    inputs: np.ndarray
    ready: dict[str, bytes]
    frames: dict[str, dict[int, list[bytes]]]
    is_signed: bool = False

    @property
    def users(self) -> int:
        return len(self.inputs)

    @property
    def everything(self) -> list[bytes]:
        return [frame for rounds in self.frames.values() for said in rounds.values() for frame in said]


def make_load(users: int, processes: int, *, single: bool, is_signed: bool = False) -> Load:
    """The replies of a whole conversation, in columns or each in a frame of its own."""
    workload = make_workload("kendall", "8x8", None)
    inputs = synthetic.draw("correlated", workload, users, np.random.default_rng(1))
    protocol = design("three-round", workload, epsilon=4.0, users=users)
    ready: dict[str, bytes] = {}
    frames: dict[str, dict[int, list[bytes]]] = {}
    for _, message in conversation(protocol, inputs, KEY, run=RUN, nodes=processes):
        if isinstance(message, Ready):
            signer = signer_of(message.node, is_signed)
            ready[message.node] = encode(message if signer is None else replace(message, key=signer.public), signer)
        elif isinstance(message, Replies):
            said = frames.setdefault(message.node, {}).setdefault(message.round, [])
            signer = signer_of(message.node, is_signed)
            alone = _apart(message, decode_ready(ready)) if single else [message]
            said += [encode(each, signer, NONCE) for each in alone]
    return Load(protocol=protocol, inputs=inputs, ready=ready, frames=frames, is_signed=is_signed)


def signer_of(name: str, is_signed: bool) -> Signer | None:
    return derived(KEY, name) if is_signed else None


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


def measure_board(load: Load, folder: Path, checkout: Path = ROOT) -> float:
    """Seconds of open rounds, from a real board's record."""
    transcript, addresses, plan = folder / "board.parley", folder / "addresses.json", folder / "plan"
    write_plan(plan, load.protocol)
    board = ["--users", load.users, "--nodes", len(load.ready), "--transcript", transcript, "--addresses", addresses]
    # The replies were drawn in advance, for the question with this nonce.
    board += ["--nonce", NONCE.hex()]
    analyst: list[Any] = ["--addresses", addresses, "--plan", plan]
    for name, arguments in (("board", board), ("analyst", analyst)):
        signer = signer_of(name, load.is_signed)
        if signer is not None:
            write_signer(folder / f"{name}.key", signer)
            arguments += ["--signing-key", folder / f"{name}.key"]
    with _started("board", checkout, folder, *board) as serving:
        while not addresses.exists():
            assert serving.poll() is None, (folder / "board.log").read_text()
            time.sleep(0.01)
        with (
            _started("analyst", checkout, folder, *analyst) as asking,
            senders(load, folder, send_to_board, str(addresses)),
        ):
            for process in (asking, serving):
                assert process.wait(WAIT_SECONDS) == 0, (folder / "board.log").read_text()
    return open_seconds(transcript, load.users)


@contextmanager
def _started(node: str, checkout: Path, folder: Path, *arguments: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A node of a checkout as a process of its own; it has ended when the context is left."""
    words = [sys.executable, "-P", "-m", f"parley.nodes.{node}", "--run", RUN, *map(str, arguments)]
    surroundings = {**child_environment(), "PYTHONPATH": str(checkout)}
    with (folder / f"{node}.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=checkout, env=surroundings, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def measure_run(load: Load, folder: Path) -> float:
    """Seconds of open rounds of `parley run`."""
    layout = Layout(protocol=load.protocol, inputs=load.inputs, key=KEY, processes=len(load.ready))
    home = RunFolder(run=RUN, path=folder / "run", default=False)
    Cluster(layout, home, Progress(sys.stderr)).run()
    return open_seconds(home.transcript, load.users)


def open_seconds(transcript: Path, users: int) -> float:
    """Time from each broadcast to the close of its round; every user must be on record in every round."""
    rounds = summarize(TranscriptReader(transcript)).rounds
    heard = sum(each.replies for each in rounds)
    assert heard == len(rounds) * users, f"{heard} replies of {len(rounds) * users} are on record"
    return sum(each.seconds or 0.0 for each in rounds)


def measure(load: Load, times: int, before: Path | None, *, whole: bool) -> dict[str, Any]:
    """All figures for one kind of frame: the fastest of several measurements in turn."""
    frames, replies = load.everything, load.users * load.protocol.claim.rounds
    seconds: dict[str, list[float]] = {}
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            seconds.setdefault("bare", []).append(measure_bare(load, Path(name)))
            seconds.setdefault("board", []).append(measure_board(load, Path(name)))
            size = (Path(name) / "board.parley").stat().st_size
        with tempfile.TemporaryDirectory() as name:
            if before is not None:
                seconds.setdefault("before", []).append(measure_board(load, Path(name), before))
            if whole:
                seconds.setdefault("run", []).append(measure_run(load, Path(name)))
    best = {kind: min(each) for kind, each in seconds.items()}
    bare, board = best["bare"], best["board"]
    figures = {
        "users": load.users,
        "processes": len(load.ready),
        "frames": len(frames),
        "bytes_a_reply": sum(map(len, frames)) / replies,
        "bytes_a_reply_on_record": size / replies,
        "bare_frames_a_second": len(frames) / bare,
        "board_frames_a_second": len(frames) / board,
        "board_replies_a_second": replies / board,
        "ratio": bare / board,
    }
    if before is not None:
        figures |= {"ratio_before": bare / best["before"], "before_over_after": best["before"] / board}
    if whole:
        figures["run_replies_a_second"] = replies / best["run"]
    return {**figures, **_signing(load)}


def _signing(load: Load) -> dict[str, float]:
    """What a signature costs its maker and its reader, in microseconds a frame."""
    if not load.is_signed:
        return {}
    node = next(iter(load.frames))
    signer = derived(KEY, node)
    frames = load.frames[node][1][:1000]
    said = [decode(frame) for frame in frames]
    began = time.perf_counter()
    for message in said:
        encode(message, signer, NONCE)
    signed = time.perf_counter()
    for message in said:
        encode(message)
    unsigned = time.perf_counter()
    for frame, message in zip(frames, said, strict=True):
        assert said_by(signer.public, frame, message, NONCE)
    verified = time.perf_counter()
    signing = (signed - began) - (unsigned - signed)
    return {"signing_us": 1e6 * signing / len(said), "verifying_us": 1e6 * (verified - unsigned) / len(said)}


HEADS = {
    "frames": "frames",
    "bytes_a_reply": "bytes per reply",
    "bytes_a_reply_on_record": "on record",
    "bare_frames_a_second": "bare frames/s",
    "board_frames_a_second": "board frames/s",
    "board_replies_a_second": "board replies/s",
    "ratio": "board / bare",
    "ratio_before": "before",
    "before_over_after": "times faster",
    "signing_us": "signing us",
    "verifying_us": "verifying us",
}


@click.command()
@click.option("--users", default=100_000, show_default=True, help="Users whose replies travel in columns.")
@click.option("--single", default=20_000, show_default=True, help="Users whose replies travel one by one.")
@click.option("--processes", default=4, show_default=True, help="Sending processes.")
@click.option("--times", default=1, show_default=True, help="Measurements of each kind.")
@click.option(
    "--before",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A checkout of another version to compare with.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one record of JSON.")
@click.option("--write", is_flag=True, help="Put the table into docs/performance.md.")
def main(users: int, single: int, processes: int, times: int, before: Path | None, as_json: bool, write: bool) -> None:
    """Measure what judging, recording and delivering cost."""
    load, other = os.getloadavg()[0], None if before is None else before.resolve()
    found = {
        "columns": measure(make_load(users, processes, single=False), times, other, whole=True),
        "single": measure(make_load(single, processes, single=True), times, other, whole=False),
        "signed": measure(make_load(single, processes, single=True, is_signed=True), times, other, whole=False),
    }
    shown = {name: head for name, head in HEADS.items() if any(name in figures for figures in found.values())}
    rows = [[kind, *(figures.get(name, "") for name in shown)] for kind, figures in found.items()]
    text = table(("kind", *shown.values()), rows)
    click.echo(json.dumps(found, indent=2) if as_json else text)
    if write:
        words = f"--users {users} --single {single} --times {times}{'' if before is None else ' --before BEFORE'}"
        note = machine(f"python -m benchmarks.messages {words} --write", load, "cryptography")
        write_block("messages", f"{text}\n\n{note}")


if __name__ == "__main__":
    main()
