"""A whole table in one event loop: real node drivers, a real transcript, whichever transport."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from emulator.board import BoardRole, Terms
from emulator.coins import key_from_seed
from emulator.messages import Message, Replies, Result
from emulator.protocol import Protocol
from emulator.roles import AnalystRole, CohortRole
from emulator.transcript import TranscriptReader
from emulator.transport import AnalystPort, BoardPort, NodePort
from nodes.analyst import AnalystNode
from nodes.board import BoardNode
from nodes.journal import Journal
from nodes.reopen import open_record
from nodes.user import UserNode
from protocols.registry import build, design
from protocols.workloads.gini import GiniDiversity

RUN = "table"
USERS = 60
INPUTS = np.arange(USERS, dtype=np.int64) % 3
KEY = key_from_seed(3)


def spoken() -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=USERS)


def cohort(number: int, nodes: int, journal: Journal) -> CohortRole:
    part = np.array_split(np.arange(USERS), nodes)[number]
    return CohortRole(
        node=f"node-{number}",
        first=int(part[0]),
        inputs=INPUTS[part[0] : part[-1] + 1],
        key=KEY,
        cap=1.0,
        build=build,
        run=journal.run,
        commitments=journal.commitments,
        chunk=8,
    )


@dataclass
class Table:
    """The parties of one run; `folder` holds the transcript and the journals."""

    folder: Path
    nodes: int
    terms: Terms
    journals: list[Journal] = field(default_factory=list)

    @classmethod
    def laid(cls, folder: Path, nodes: int, **terms: float) -> "Table":
        return cls(folder, nodes, Terms(run=RUN, users=USERS, nodes=nodes, **{"patience": 0.05, **terms}))  # type: ignore[arg-type]

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript.parley"

    def board(self, port: BoardPort) -> BoardNode:
        return BoardNode(BoardRole(self.terms), port, open_record(self.transcript, RUN), self.transcript)

    def analyst(self, port: AnalystPort) -> AnalystNode:
        return AnalystNode(AnalystRole(spoken(), RUN), port)

    def user(self, number: int, port: NodePort) -> UserNode:
        journal = Journal(self.folder / f"journal-{number}.jsonl")
        self.journals.append(journal)
        return UserNode(cohort(number, self.nodes, journal), port, journal)

    def record(self) -> list[Message]:
        return [record.message for record in TranscriptReader(self.transcript)]

    def result(self) -> Result:
        last = self.record()[-1]
        assert isinstance(last, Result), last
        return last

    def replies(self) -> dict[tuple[int, int], bytes]:
        """Every user's reply of every round; a second, different one would be a scandal."""
        found: dict[tuple[int, int], bytes] = {}
        for message in self.record():
            if isinstance(message, Replies):
                for row, user in enumerate(message.users):
                    reply = b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
                    assert (message.round, int(user)) not in found
                    found[message.round, int(user)] = reply
        return found


async def seat(node: AnalystNode | UserNode) -> None:
    """Serve, and leave the table when it is over."""
    await node.serve()
    node.port.close()


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; the limit only keeps a broken test from hanging."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
