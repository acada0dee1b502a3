"""Analyst and board collude and ask one node something else than what is on record: its signed reply says so.

A node cannot know what others were asked. But the question is part of what it signs, so that whoever reads the record
sees that these replies answer another one.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from parley.emulator.coins import question_of, terms_of
from parley.emulator.transport.ports import topic_for
from parley.emulator.wire.codec import encode, envelope, said_by
from parley.emulator.wire.messages import Announce, Replies
from tests.attacks.impostor import Impostor, victim
from tests.attacks.parties import (
    ANALYST,
    BOARD,
    NONCE,
    OWN,
    Ledger,
    abort,
    announces_of,
    consent_for,
    make_state,
    setup_of,
    spoken,
)

NAME = "two-round"
NAMES = ("honest", "deceived")


def whisper(board: Impostor, node: str, announce: Announce) -> None:
    """Say it to one node alone."""
    board.publish(topic_for(node), envelope(0, "analyst", encode(announce, ANALYST, NONCE)))


def test_a_reply_to_another_question_bears_its_digest(tmp_path: Path) -> None:
    protocol = spoken(NAME)
    setup, (first, public) = setup_of(protocol), announces_of(NAME)
    other = replace(public, broadcast={name: np.zeros_like(each) for name, each in public.broadcast.items()})
    ledger = Ledger()
    with Impostor() as board:
        states = [make_state(tmp_path / name, consent_for(protocol), node=name, users=12) for name in NAMES]
        with victim(board, states[0], 0, users=12) as honest, victim(board, states[1], 0, users=12) as deceived:
            board.gather(*NAMES)
            board.say(setup)
            board.say(first)
            board.until(lambda: all(board.of(Replies, name) for name in NAMES))
            for name in NAMES:
                board.hold(ledger, 1, name)
            ledger.close(1)
            for name in NAMES:
                board.show(ledger.receipt(name, 1))
            whisper(board, "honest", public)
            whisper(board, "deceived", other)
            board.until(lambda: all(board.replies(2, name) for name in NAMES))
            # What is on record now reaches the deceived node too: it has answered this round, and refuses.
            board.say(public)
            board.until(lambda: any(each.kind == "refusal" for _, each in board.heard))
            board.say(abort(), BOARD)
            assert {honest.wait(), deceived.wait()} == {3}
    on_record = question_of(terms_of(setup), public)
    for name, question in (("honest", on_record), ("deceived", question_of(terms_of(setup), other))):
        for frame, replies in board.replies(2, name).values():
            assert replies.question == question
            assert said_by(OWN.public, frame, replies, NONCE)
            # Nobody without the node's key can give its reply another question.
            forged = replace(replies, question=on_record)
            assert name == "honest" or not said_by(OWN.public, encode(forged, ANALYST, NONCE), forged, NONCE)
    assert question_of(terms_of(setup), other) != on_record


def test_the_same_broadcast_in_another_run_is_another_question() -> None:
    announce = announces_of(NAME)[1]
    setup = setup_of(spoken(NAME))
    changed = [
        replace(setup, nonce=bytes(16)),
        replace(setup, version=2),
        replace(setup, epsilon=2.0),
        replace(setup, delta=0.5),
        replace(setup, rounds=3),
        replace(setup, domain={"inputs": 5}),
        replace(setup, protocol="three-round"),
        replace(setup, parameters={**setup.parameters, "users": 41}),
    ]
    questions = {question_of(terms_of(each), announce) for each in (setup, *changed)}
    assert len(questions) == 1 + len(changed)
    # How many are to answer, and who processes what where, is no part of it.
    assert question_of(terms_of(setup), replace(announce, speakers=7)) in questions
    assert question_of(terms_of(replace(setup, run="another")), announce) in questions
