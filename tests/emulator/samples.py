"""One message of each kind, and a small real protocol, for tests of roles and nodes."""

import numpy as np

from emulator.coins import key_from_seed
from emulator.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
    Setup,
)
from emulator.protocol import Protocol
from emulator.roles import CohortRole
from protocols.registry import build, design
from protocols.workloads.gini import GiniDiversity

RUN = "r"
KEY = key_from_seed(1)
INPUTS = np.arange(10, dtype=np.int64) % 3


def protocol(users: int = 10) -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=users)


def cohort(**changes: object) -> CohortRole:
    settings: dict[str, object] = {
        "node": "n",
        "first": 0,
        "inputs": INPUTS,
        "key": KEY,
        "cap": 1.0,
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
    }
    return Setup(**{**fields, **changes})  # type: ignore[arg-type]


def every_message() -> list[Message]:
    nobody = np.empty(0, dtype=np.int64)
    return [
        Ready(node="n", first=0, users=10, pid=1),
        Roster(run=RUN, nodes=1, users=10),
        setup(),
        Announce(run=RUN, round=1, broadcast={}),
        Replies(run=RUN, round=1, node="n", chunk=0, chunks=1, users=nobody, columns={}),
        Refusal(run=RUN, round=1, node="n", reason="no"),
        Close(run=RUN, round=1, replies=10, missing=0),
        Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=10),
        Abort(run=RUN, outcome="failed", reason="so"),
        Reminder(run=RUN, round=1, missing={"n": ()}),
        Resume(sequence=0, count=0),
        Event(event="drop", node="n", round=1, detail="so"),
    ]
