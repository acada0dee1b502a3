"""A whole run in memory: the same roles as over sockets, without processes, clock or loss."""

from collections import deque
from collections.abc import Iterator

import numpy as np

from emulator.board import ANALYST_NAME, BoardRole, Terms
from emulator.errors import LocalProtocolError
from emulator.messages import BROADCASTS, Message, Ready, Result
from emulator.protocol import Inputs, Protocol
from emulator.roles import CHUNK, AnalystRole, CohortRole, Commit


def conversation(
    protocol: Protocol, inputs: Inputs, key: bytes, *, run: str = "simulated", nodes: int = 1, chunk: int = CHUNK
) -> Iterator[tuple[str, Message]]:
    """Every message of a run in the order of the record, with its sender."""
    board = BoardRole(Terms(run=run, users=len(inputs), nodes=nodes))
    analyst = AnalystRole(protocol, run)
    cohorts = [
        CohortRole(
            node=f"node-{number}",
            first=int(part[0]),
            inputs=inputs[part[0] : part[-1] + 1],
            key=key,
            cap=protocol.claim.epsilon,
            build=lambda name, parameters: protocol,
            chunk=chunk,
            trusts=protocol.claim.trusts,
            delta_cap=protocol.claim.delta,
        )
        for number, part in enumerate(np.array_split(np.arange(len(inputs)), nodes))
    ]
    # Replies are drawn one chunk at a time, when their turn comes: memory does not grow with the users.
    waiting: deque[Iterator[tuple[str, Message]]] = deque(iter([(each.node, _ready(each))]) for each in cohorts)
    while waiting:
        spoken = next(waiting[0], None)
        if spoken is None:
            waiting.popleft()
            continue
        for sender, message in board.hear(*spoken, now=0.0):
            yield sender, message
            waiting.append(iter([(ANALYST_NAME, said) for said in analyst.hear(message)]))
            if isinstance(message, BROADCASTS):
                waiting.extend(_voice(cohort, message) for cohort in cohorts)


def simulate(protocol: Protocol, inputs: Inputs, key: bytes, *, nodes: int = 1, chunk: int = CHUNK) -> Result:
    """The result of a run in memory; the conversation itself is forgotten as it goes."""
    last: Message | None = None
    for _, message in conversation(protocol, inputs, key, nodes=nodes, chunk=chunk):
        last = message
    if not isinstance(last, Result):
        raise LocalProtocolError(f"the run ended without a result: {last}")
    return last


def _ready(cohort: CohortRole) -> Ready:
    return Ready(node=cohort.node, first=cohort.first, users=len(cohort.inputs), pid=0)


def _voice(cohort: CohortRole, message: Message) -> Iterator[tuple[str, Message]]:
    return ((cohort.node, said) for said in cohort.hear(message) if not isinstance(said, Commit))
