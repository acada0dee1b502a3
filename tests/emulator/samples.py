"""One message of each kind, and a small real protocol, for tests of roles and nodes."""

from dataclasses import replace

import numpy as np

from parley.emulator.coins import key_from_seed, nonce_from_key, setup_digest
from parley.emulator.protocol import Protocol
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import Consent, consent_to, domain_of
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Inquiry,
    Message,
    Pledge,
    Ready,
    Receipt,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
    Seating,
    Setup,
    Shard,
    Tally,
    Tie,
)
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity

RUN = "r"
KEY = key_from_seed(1)
NONCE = nonce_from_key(KEY)
QUESTION = bytes(range(32))
INPUTS = np.arange(10, dtype=np.int64) % 3


def protocol(users: int = 10) -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=users)


def consent(**changes: object) -> Consent:
    """What the users of `cohort` agreed to: the run and the protocol of `setup`."""
    return replace(consent_to(protocol(), RUN), **changes)  # type: ignore[arg-type]


def cohort(**changes: object) -> CohortRole:
    settings: dict[str, object] = {
        "node": "n",
        "first": 0,
        "inputs": INPUTS,
        "key": KEY,
        "consent": consent(),
        "build": build,
        "chunk": 4,
    }
    return CohortRole(**{**settings, **changes})  # type: ignore[arg-type]


def setup(**changes: object) -> Setup:
    spoken = protocol()
    fields: dict[str, object] = {
        "run": RUN,
        "protocol": spoken.name,
        "parameters": spoken.parameters(),
        "epsilon": 1.0,
        "delta": 0.0,
        "rounds": 3,
        "domain": domain_of(3),
        "nonce": NONCE,
    }
    return Setup(**{**fields, **changes})  # type: ignore[arg-type]


def every_message() -> list[Message]:
    nobody = np.empty(0, dtype=np.int64)
    return [
        Ready(node="n", first=0, users=10, pid=1),
        Roster(run=RUN, nodes=1, users=10, nonce=NONCE),
        setup(),
        Announce(run=RUN, round=1, broadcast={}, speakers=10),
        Replies(run=RUN, round=1, node="n", chunk=0, chunks=1, users=nobody, columns={}, question=QUESTION),
        Refusal(run=RUN, round=1, node="n", reason="no"),
        Close(run=RUN, round=1, replies=10, missing=0),
        Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=10),
        Abort(run=RUN, outcome="failed", reason="so", nonce=NONCE),
        Reminder(run=RUN, round=1, missing={"n": ()}),
        Resume(sequence=0, count=0),
        Event(event="drop", node="n", round=1, detail="so"),
        receipt(round=7),
        Inquiry(run=RUN, round=1, node="n"),
        Pledge(run=RUN, setup=setup_digest(setup())),
        Seating(run=RUN, node="n", key=bytes(32), nonce=NONCE),
        Shard(run=RUN, node="n", stretches=np.array([[0, 10]]), pid=1, roster=b"roster"),
        Tally(run=RUN, round=1, node="n", replies=10, sums={}, rejected={}, silent=0, close=b"close"),
        Tie(run=RUN, round=1, node="n", tally=b"tally", receipt=b"receipt"),
    ]


def receipt(**changes: object) -> Receipt:
    """A receipt of node n for round 1 that shows nothing."""
    fields: dict[str, object] = {
        "run": RUN,
        "round": 1,
        "node": "n",
        "close": b"no close",
        "chunks": (),
        "sequences": (),
        "times": (),
        "paths": (),
        "before": 0,
        "consistency": b"",
    }
    return Receipt(**{**fields, **changes})  # type: ignore[arg-type]
