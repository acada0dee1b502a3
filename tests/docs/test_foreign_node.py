"""The foreign node defends its users: it believes signatures and proofs, answers once, and keeps what shows a lie."""

import hashlib
import importlib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.record.merkle import Tree, leaf_of
from parley.emulator.roles.replies import Speakers
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Inquiry,
    Message,
    Receipt,
    Refusal,
    Reminder,
    Replies,
    Result,
    Seating,
    Setup,
)
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.receipts import Receipts
from parley.nodes.state.user_state import load_evidence
from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_workload
from tests.docs.foreign import FOREIGN, NONCE, RUN, Table
from tests.docs.independent import wire

foreign_node: Any = importlib.import_module("foreign_node")
NOW = 10**18


class Scene:
    """A foreign node in this process, and a board that can be made to lie."""

    def __init__(self, folder: Path) -> None:
        protocol = design("frequency-grr", make_workload("gini-diversity", "5", None), epsilon=2.0, users=9)
        self.table = Table(folder=folder, protocol=protocol, cohorts={FOREIGN: 4, "node-0": 5})
        self.analyst, self.board = self.table.signers["analyst"], self.table.signers["board"]
        self.setup = Setup(
            run=RUN,
            protocol=protocol.name,
            parameters=protocol.parameters(),
            epsilon=2.0,
            delta=0.0,
            rounds=1,
            domain={"inputs": 5},
            nonce=NONCE,
        )
        self.announce = Announce(run=RUN, round=1, broadcast={}, speakers=9)
        self.said: list[bytes] = []
        self.node: Any = None
        self.start()

    def start(self) -> None:
        """Start it, again or for the first time, with the state on disk."""
        if self.node is not None:
            wire.os.close(self.node.state.file)
        inputs = self.table.inputs_of(FOREIGN).tolist()
        self.node = foreign_node.Node(wire.State(self.table.folder / FOREIGN), inputs, self.said.append)

    def hear(self, message: Message, signer: Signer | None = None, nonce: bytes = NONCE) -> list[Message]:
        """What it says because of a message."""
        before = len(self.said)
        self.node.hear(encode(message, signer, nonce))
        return [decode(frame) for frame in self.said[before:]]

    def seat(self, key: bytes | None = None, nonce: bytes = NONCE, signer: Signer | None = None) -> list[Message]:
        """Tell it which key holds its seat: its own, unless another is given."""
        own = self.table.signers[FOREIGN].public
        told = Seating(run=RUN, node=FOREIGN, key=own if key is None else key, nonce=nonce)
        return self.hear(told, signer or self.board)

    def answer(self) -> bytes:
        """Its one reply."""
        self.seat()
        self.hear(self.setup, self.analyst)
        (reply,) = self.hear(self.announce, self.analyst)
        assert isinstance(reply, Replies)
        return self.said[-1]

    def receipt(self, frame: bytes, *, absent: tuple[str, ...] = (), signer: Signer | None = None) -> Receipt:
        """The receipt of a record that holds this frame."""
        tree, receipts = Tree(), Receipts(RUN)
        for sequence, each in enumerate((frame, b"something of others")):
            tree.append(leaf_of(sequence, NOW, FOREIGN, hashlib.sha256(each).digest()))
        reply = next(message for message in map(decode, self.said) if isinstance(message, Replies))
        receipts.note(0, NOW, reply, frame)
        close = Close(run=RUN, round=1, replies=9, missing=0, absent=absent, size=2, root=tree.root())
        receipts.note(2, NOW, close, encode(close, signer or self.board, NONCE))
        made = receipts.make(FOREIGN, 1, tree)
        assert made is not None
        return made

    @property
    def result(self) -> Result:
        return Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=9)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_it_answers_once_and_says_the_same_bytes_again(scene: Scene) -> None:
    frame = scene.answer()
    assert scene.hear(scene.announce, scene.analyst) == []
    (again,) = scene.hear(Reminder(run=RUN, round=1, missing={FOREIGN: ()}))
    assert encode(again, scene.table.signers[FOREIGN], NONCE) == frame
    assert scene.hear(Reminder(run=RUN, round=1, missing={"node-0": ()})) == []
    scene.start()
    assert scene.answer() == frame


def test_it_believes_nobody_but_the_analyst(scene: Scene) -> None:
    for signer in (None, scene.board, Signer(b"x" * 32)):
        with pytest.raises(wire.Refused, match="not signed"):
            scene.hear(scene.setup, signer)
    scene.hear(scene.setup, scene.analyst)
    with pytest.raises(wire.Refused, match="not signed"):
        scene.hear(scene.announce, scene.analyst, b"another nonce ..")
    assert scene.said == []


@pytest.mark.parametrize("restarted", [False, True])
def test_it_refuses_a_second_question(scene: Scene, restarted: bool) -> None:
    scene.answer()
    if restarted:
        scene.start()
        scene.hear(scene.setup, scene.analyst)
    before = len(scene.said)
    other = replace(scene.setup, nonce=bytes(16))
    with pytest.raises(wire.Refused, match="second"):
        scene.hear(other, scene.analyst)
    with pytest.raises(wire.Refused, match="first and only"):
        scene.hear(replace(scene.announce, round=2), scene.analyst)
    refusals = [decode(frame) for frame in scene.said[before:]]
    assert [type(each) for each in refusals] == [Refusal, Refusal]
    assert [each.round for each in refusals] == [0, 2]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [
        {"run": "another"},
        {"domain": {"inputs": 6}},
        {"epsilon": 1.0},
        {"delta": 0.1},
        {"rounds": 2},
        {"version": 2},
        {"protocol": "frequency-oue"},
        {"parameters": {"epsilon": 2.0, "users": 9}},
    ],
)
def test_it_refuses_what_was_not_agreed_to(scene: Scene, change: dict[str, Any]) -> None:
    with pytest.raises(wire.Refused):
        scene.hear(replace(scene.setup, **change), scene.analyst)
    assert scene.said == [], "who may have no seat says nothing on record"
    scene.seat()
    with pytest.raises(wire.Refused):
        scene.hear(replace(scene.setup, **change), scene.analyst)
    (refusal,) = map(decode, scene.said)
    assert isinstance(refusal, Refusal)
    assert refusal.round == 0
    assert scene.node.state.seated is None


def test_it_refuses_as_many_inputs_in_other_columns(scene: Scene) -> None:
    columns = [{"name": name, "levels": 4, "type": "number", "low": 0.0, "high": 1.0} for name in ("age", "score")]
    meant = {"inputs": 16, "columns": columns}
    scene.node.consent["domain"] = meant
    for levels, refused in (([2, 8], True), ([4, 4], False)):
        parameters = {**scene.setup.parameters, "workload": {"statistic": "kendall", "levels": levels}}
        with pytest.raises(wire.Refused, match="columns of") if refused else nullcontext():
            scene.hear(replace(scene.setup, domain=meant, parameters=parameters), scene.analyst)


def test_it_leaves_with_its_receipt(scene: Scene) -> None:
    frame = scene.answer()
    (inquiry,) = scene.hear(scene.result, scene.analyst)
    assert isinstance(inquiry, Inquiry)
    assert not scene.node.done
    scene.hear(scene.receipt(frame))
    assert scene.node.done
    assert scene.node.result
    scene.start()
    with pytest.raises(wire.Refused, match="is over"):
        scene.hear(scene.setup, scene.analyst)


def test_a_receipt_that_the_board_did_not_sign_is_ignored(scene: Scene) -> None:
    frame = scene.answer()
    with pytest.raises(wire.Refused, match="did not sign"):
        scene.hear(scene.receipt(frame, signer=Signer(b"x" * 32)))
    assert scene.node.proven == 0


def test_a_board_that_leaves_its_reply_out_is_found_out(scene: Scene) -> None:
    frame = scene.answer()
    with pytest.raises(foreign_node.Distrust):
        scene.hear(scene.receipt(frame + b"other bytes"))
    kept = load_evidence(scene.table.folder / FOREIGN / "evidence-1.parley")
    assert (kept.node, kept.round, kept.frames) == (FOREIGN, 1, (frame,))
    assert isinstance(decode(kept.close), Close)


def test_a_reply_in_its_name_that_it_does_not_remember_is_found_out(scene: Scene) -> None:
    frame = scene.answer()
    receipt = scene.receipt(frame)
    scene.node.state.answered.clear()
    with pytest.raises(foreign_node.Distrust, match="does not remember"):
        scene.hear(receipt)


def test_a_reply_declared_missing_is_kept_as_evidence(scene: Scene) -> None:
    frame = scene.answer()
    scene.hear(scene.receipt(frame, absent=(FOREIGN,)))
    assert scene.node.proven == 1
    assert load_evidence(scene.table.folder / FOREIGN / "evidence-1.parley").frames == (frame,)


def test_after_an_answer_it_is_not_started_with_other_inputs(scene: Scene) -> None:
    scene.answer()
    state, mine = scene.node.state, scene.node.inputs
    with pytest.raises(SystemExit, match="other inputs"):
        foreign_node.Node(state, [(mine[0] + 1) % 5, *mine[1:]], scene.said.append)
    foreign_node.Node(state, mine, scene.said.append)
    # Parley marks them in the same way.
    parleys = Speakers(node=FOREIGN, first=0, inputs=np.array(mine), key=state.identity["coin_key"])
    assert {each["inputs"] for each in state.answered.values()} == {parleys.mark}


def test_a_cut_state_is_refused(scene: Scene) -> None:
    scene.answer()
    path = scene.table.folder / FOREIGN / "state.parley"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(SystemExit, match="cut or altered"):
        scene.start()


def test_it_answers_only_in_a_seat_that_is_its_own(scene: Scene) -> None:
    with pytest.raises(wire.Refused, match="not signed"):
        scene.seat(bytes(32), signer=Signer(b"x" * 32))
    scene.hear(scene.setup, scene.analyst)
    (asked,) = scene.hear(scene.announce, scene.analyst)
    assert isinstance(asked, Inquiry)
    assert asked.round == 0
    assert scene.seat(bytes(32), nonce=bytes(16)) == [], "an old word about another run of this name"
    (reply,) = scene.seat()
    assert isinstance(reply, Replies)


def test_it_stops_where_another_key_holds_its_seat(scene: Scene) -> None:
    assert scene.seat(bytes(32)) == []
    with pytest.raises(SystemExit, match="held by another key"):
        scene.hear(scene.setup, scene.analyst)
    assert scene.said == []


@pytest.mark.parametrize("word", ["setup", "seating"])
def test_an_abort_of_another_nonce_does_not_end_it(scene: Scene, word: str) -> None:
    scene.hear(scene.setup, scene.analyst) if word == "setup" else scene.seat()
    for nonce in (b"", bytes(16)):
        scene.hear(Abort(run=RUN, outcome="failed", reason="so", nonce=nonce), scene.board)
        assert not scene.node.done
    scene.hear(Abort(run=RUN, outcome="failed", reason="so", nonce=NONCE), scene.board)
    assert scene.node.done
