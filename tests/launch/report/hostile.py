"""A record whose every text tries to become part of the page."""

from pathlib import Path

import numpy as np

from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Announce, Event, Message, Ready, Refusal, Replies, Roster, Setup

HOSTILE = (
    "</script><script>window.broken=1;alert(1)</script><!--<img src=x onerror=alert(2)>"
    "{{data}} ${1} \u2028 javascript:alert(3) \\u003c \" ' &lt; \ud7ff \U0001f600"
)


def hostile_messages() -> list[tuple[str, Message]]:
    columns = {HOSTILE[:60]: np.arange(3, dtype=np.int64)}
    return [
        ("node-0", Ready(node="node-0", first=0, users=3, pid=1)),
        ("board", Roster(run="r", nodes=1, users=3)),
        (
            "analyst",
            Setup(
                run="r", protocol="three-round", parameters={HOSTILE[:60]: HOSTILE}, epsilon=1.0, delta=0.0, rounds=2
            ),
        ),
        ("analyst", Announce(run="r", round=1, broadcast={HOSTILE[:60]: np.zeros((2, 2))})),
        ("node-0", Replies(run="r", round=1, node="node-0", chunk=0, chunks=1, users=np.arange(3), columns=columns)),
        ("node-0", Refusal(run="r", round=1, node="node-0", reason=HOSTILE)),
        ("board", Event(event=HOSTILE, node="node-0", round=1, detail=HOSTILE)),
        ("board", Event(event="loss", node=HOSTILE, round=1, detail=HOSTILE)),
        ("board", Abort(run="r", outcome="failed", reason=HOSTILE)),
    ]


def write_hostile(path: Path) -> Path:
    """Write the record, closed as failed."""
    with TranscriptWriter.create(path, "r") as writer:
        for number, (sender, message) in enumerate(hostile_messages()):
            writer.append(sender, encode(message), 10**18 + number)
        writer.close("failed", HOSTILE)
    return path
