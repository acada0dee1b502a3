"""A whole run in memory: the same roles as over sockets, without processes, clock or loss."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from parley.emulator.coins import nonce_from_key
from parley.emulator.errors import LocalProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME, BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to
from parley.emulator.roles.replies import CHUNK
from parley.emulator.wire.messages import BROADCASTS, Abort, Message, Result

Words = Iterator[tuple[str, Message]]
"""Messages with their senders."""


def conversation(
    protocol: Protocol,
    inputs: Inputs,
    key: bytes,
    *,
    run: str = "simulated",
    nodes: int = 1,
    chunk: int = CHUNK,
    domain: Mapping[str, Any] | None = None,
) -> Words:
    """Every message of a run in the order of the record, with its sender.

    `domain`: what the inputs mean, where they come from columns; it is part of the question that coins follow.
    """
    board = BoardRole(Terms(run=run, users=len(inputs), nodes=nodes), lambda: nonce_from_key(key))
    analyst = AnalystRole(protocol, run, domain)
    cohorts = make_cohorts(protocol, inputs, key, run, nodes, chunk, domain)
    # Replies are drawn one chunk at a time, when their turn comes: memory does not grow with the users.
    waiting: deque[Words] = deque(iter([(each.node, each.ready(0))]) for each in cohorts)
    while waiting:
        spoken = next(waiting[0], None)
        if spoken is None:
            waiting.popleft()
            continue
        for sender, message in board.hear(*spoken, now=0.0):
            yield sender, message
            waiting.append(iter([(ANALYST_NAME, said) for said in analyst.hear(message)]))
            if isinstance(message, BROADCASTS):
                waiting.extend(voice(cohort, message) for cohort in cohorts)


def simulate(protocol: Protocol, inputs: Inputs, key: bytes, *, chunk: int = CHUNK) -> Result:
    """The result of a run in memory; the conversation itself is forgotten as it goes."""
    return result_of(conversation(protocol, inputs, key, chunk=chunk))


def make_cohorts(
    protocol: Protocol,
    inputs: Inputs,
    key: bytes,
    run: str,
    nodes: int,
    chunk: int,
    domain: Mapping[str, Any] | None = None,
) -> list[CohortRole]:
    """User nodes that share the users, each with the same number of them or one more."""
    return [
        CohortRole(
            node=f"node-{number}",
            first=int(part[0]),
            inputs=inputs[part[0] : part[-1] + 1],
            key=key,
            consent=consent_to(protocol, run, domain),
            build=lambda name, parameters: protocol,
            chunk=chunk,
        )
        for number, part in enumerate(np.array_split(np.arange(len(inputs)), nodes))
    ]


def voice(cohort: CohortRole, message: Message) -> Words:
    """What a user node says because of a message."""
    return ((cohort.node, said) for said in cohort.hear(message) if isinstance(said, Message))


def result_of(words: Words) -> Result:
    """The last word of a run; LocalProtocolError if that is not a result."""
    last: Message | None = None
    for _, message in words:
        last = message
    if not isinstance(last, Result):
        raise LocalProtocolError(f"the run ended without a result: {last.reason if isinstance(last, Abort) else last}")
    return last
