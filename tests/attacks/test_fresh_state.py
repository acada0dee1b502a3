"""A fresh state in an old seat, as processes: a node says ready and dies, and a new state comes under its name.

The new state has other keys and does not know what the old one has answered. It must not answer anything, whatever
happens to the board meanwhile, and the run goes on as if it were dead.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import zmq

from benchmarks.stage import Stage
from benchmarks.states import renewed
from parley.emulator.audit.report import audit
from parley.emulator.coins import key_from_seed
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.wire.codec import decode
from parley.emulator.wire.messages import Announce, Close, Message, Ready, Replies
from parley.launch.cluster.layout import Layout
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload

VICTIM, PROCESSES, USERS = "node-1", 3, 30
ALLOWED = {"ready", "inquiry"}


class Street(Stage):
    """A run before the real board, which can be killed and comes back to its record and its ports."""

    def start_board(self) -> None:
        again = self.folder.addresses.exists()
        command_line = self.command_lines.again(BOARD_NAME) if again else self.command_lines.board()
        self._start(BOARD_NAME, "parley.nodes.board", command_line.arguments)
        self.until(self.folder.addresses.exists)

    def restart_board(self) -> None:
        self.kill(BOARD_NAME)
        self.start_board()

    def has(self, kind: type[Message], node: str = "") -> bool:
        """Whether something of a kind is on record, of a node if one is named."""
        if not self.folder.transcript.exists():
            return False
        return any(isinstance(each, kind) and getattr(each, "node", node) == node for each in self.on_record())


class Wire:
    """Between one node and the board's inbox: everything that the node sends, whether or not a board takes it."""

    def __init__(self, stage: Street, addresses: Path) -> None:
        found = json.loads(stage.folder.addresses.read_text())
        self._context = zmq.Context()
        self._near, self._far = self._context.socket(zmq.PULL), self._context.socket(zmq.PUSH)
        for each in (self._near, self._far):
            each.setsockopt(zmq.LINGER, 0)
        port = self._near.bind_to_random_port("tcp://127.0.0.1")
        self._far.connect(found["inbox"])
        addresses.write_text(json.dumps({**found, "inbox": f"tcp://127.0.0.1:{port}"}))
        self.heard: list[Message] = []
        self._over = threading.Event()
        self._pump = threading.Thread(target=self._pass_on)
        self._pump.start()

    def _pass_on(self) -> None:
        while not self._over.is_set():
            if self._near.poll(50):
                frame = self._near.recv()
                self.heard.append(decode(frame))
                self._far.send(frame)

    def close(self) -> None:
        self._over.set()
        self._pump.join()
        self._near.close()
        self._far.close()
        self._context.term()


@contextmanager
def wire(stage: Street, addresses: Path) -> Iterator[Wire]:
    made = Wire(stage, addresses)
    try:
        yield made
    finally:
        made.close()


def street(folder: Path, *, quorum: float, deadline: float) -> Street:
    workload = make_workload("gini-diversity", "4", None)
    layout = Layout(
        protocol=design("frequency-grr", workload, epsilon=2.0, users=USERS),
        inputs=np.arange(USERS, dtype=np.int64) % 4,
        key=key_from_seed(8),
        processes=PROCESSES,
        quorum=quorum,
        deadline=deadline,
        repeatable=True,
    )
    return Street(layout, folder / "run", "street")


def dies_after_ready(stage: Street) -> Path:
    """The victim takes its seat and is killed; where its state is kept."""
    stage.start_board()
    stage.start_node(VICTIM)
    stage.until(lambda: stage.has(Ready, VICTIM))
    stage.kill(VICTIM)
    own = stage.folder.node_state(VICTIM)
    return own.rename(own.with_name("old"))


def others_come(stage: Street) -> None:
    stage.start_analyst()
    for name in stage.layout.nodes:
        if name != VICTIM:
            stage.start_node(name)


def check_silent(stage: Street, street_wire: Wire, fresh: bytes) -> None:
    """It left with one sentence, and nothing but readies and questions about its seat ever left it."""
    assert stage.wait("fresh") == 3, stage.said("fresh")
    sentences = [line for line in stage.said("fresh").splitlines() if line.startswith("parley: ")]
    assert len(sentences) == 1
    assert "held by another signing key" in sentences[0]
    assert "Traceback" not in stage.said("fresh")
    assert {each.kind for each in street_wire.heard} <= ALLOWED
    assert {each.key for each in street_wire.heard if isinstance(each, Ready)} == {fresh}


def check_record(stage: Street) -> None:
    report = audit(stage.folder.transcript, build, witness=Witness.load(stage.folder.witness), keys=stage.keys)
    assert report.ok, report.record()
    assert report.verdicts["authorship"].verdict == "pass"


@pytest.mark.parametrize("moment", ["before the roster", "in an open round"])
def test_the_run_goes_on_as_if_it_were_dead(moment: str, tmp_path: Path) -> None:
    with street(tmp_path, quorum=0.5, deadline=10.0) as stage:
        dies_after_ready(stage)
        (fresh,) = renewed(stage, VICTIM)
        if moment == "in an open round":
            others_come(stage)
            stage.until(lambda: stage.has(Announce))
        with wire(stage, tmp_path / "tapped.json") as tap:
            stage.start_node(VICTIM, process="fresh", at=tmp_path / "tapped.json")
            if moment == "before the roster":
                stage.until(lambda: any(isinstance(each, Ready) for each in tap.heard))
            stage.restart_board()
            if moment == "before the roster":
                others_come(stage)
            check_silent(stage, tap, fresh)
        assert stage.wait(BOARD_NAME) == 0
        assert not stage.has(Replies, VICTIM)
        (close,) = (each for each in stage.on_record() if isinstance(each, Close))
        assert close.absent == (VICTIM,)
        check_record(stage)


def test_its_own_state_takes_the_seat_again(tmp_path: Path) -> None:
    """After the fresh state has left, the one that said ready comes back, and nobody is missing."""
    with street(tmp_path, quorum=1.0, deadline=100.0) as stage:
        old = dies_after_ready(stage)
        (fresh,) = renewed(stage, VICTIM)
        others_come(stage)
        with wire(stage, tmp_path / "tapped.json") as tap:
            stage.start_node(VICTIM, process="fresh", at=tmp_path / "tapped.json")
            check_silent(stage, tap, fresh)
        stage.restart_board()
        stage.start_node(VICTIM, state=old)
        for name in (*stage.layout.nodes, BOARD_NAME):
            assert stage.wait(name) == 0, stage.said(name)
        assert stage.estimates() == stage.estimates_in_memory()
        check_record(stage)
