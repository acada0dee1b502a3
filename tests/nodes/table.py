"""A whole table in one event loop: real node drivers, a real transcript, real states on disk, whichever transport."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.protocol import Protocol
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.transport.ports import BoardPort, NodePort
from parley.emulator.wire.codec import unpack
from parley.emulator.wire.messages import Message, Replies, Result
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.analyst import AnalystNode
from parley.nodes.board import BoardNode
from parley.nodes.state.reopen import open_record
from parley.nodes.state.user_state import FILE, MAGIC, Identity, State
from parley.nodes.user import UserNode
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity

RUN = "table"
USERS = 60
INPUTS = np.arange(USERS, dtype=np.int64) % 3
KEY = key_from_seed(3)
NONCE = nonce_from_key(KEY)
CHUNK = 8


def spoken() -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=USERS)


def role_of(state: State) -> CohortRole:
    """The role of a node, with small chunks."""
    mine = state.identity
    return CohortRole(
        node=mine.node,
        first=mine.first,
        inputs=INPUTS[mine.first : mine.first + mine.users],
        key=mine.coin_key,
        consent=mine.consent,
        build=build,
        memory=state.memory,
        signer=mine.signer,
        chunk=CHUNK,
    )


@dataclass
class Table:
    """The parties of one run; `folder` holds the transcript and the states. Everybody signs unless told otherwise."""

    folder: Path
    nodes: int
    terms: Terms
    signed: bool = True
    cap: float = 1.0
    careless: frozenset[int] = frozenset()
    """Nodes whose users ask nobody for a signature."""
    states: dict[int, State] = field(default_factory=dict)

    @classmethod
    def laid(cls, folder: Path, nodes: int, *, signed: bool = True, **terms: float) -> "Table":
        agreed = Terms(run=RUN, users=USERS, nodes=nodes, **{"patience": 0.05, **terms})  # type: ignore[arg-type]
        return cls(folder, nodes, agreed, signed)

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript.parley"

    def signer(self, name: str) -> Signer | None:
        return derived(KEY, name) if self.signed else None

    def public(self, name: str) -> bytes:
        return derived(KEY, name).public if self.signed else b""

    def consent(self, number: int) -> Consent:
        keys = {} if number in self.careless else {name: self.public(name) for name in ("analyst", "board")}
        return Consent(run=RUN, domain=domain_of(3), cap=self.cap, **keys)

    def state(self, number: int) -> Path:
        """The folder of a node's state, made if it is not there."""
        folder, part = self.folder / f"state-{number}", np.array_split(np.arange(USERS), self.nodes)[number]
        if not (folder / FILE).exists():
            signer = self.signer(f"node-{number}")
            identity = Identity(
                node=f"node-{number}",
                first=int(part[0]),
                users=len(part),
                consent=self.consent(number),
                coin_key=KEY,
                signing_key=b"" if signer is None else signer.secret,
            )
            State.create(folder, identity)
        return folder

    def board(self, port: BoardPort) -> BoardNode:
        keys = {f"node-{number}": self.public(f"node-{number}") for number in range(self.nodes)}
        role = BoardRole(self.terms, lambda: NONCE, keys)
        return BoardNode(role, port, open_record(self.transcript, RUN), self.transcript, signer=self.signer("board"))

    def analyst(self, port: NodePort) -> AnalystNode:
        return AnalystNode(AnalystRole(spoken(), RUN), port, self.signer("analyst"))

    def user(self, number: int, port: NodePort) -> UserNode:
        """A node in its first life, or in its next one: whatever had the state before lets go of it."""
        if number in self.states:
            self.states.pop(number).close()
        state = self.states[number] = State(self.state(number))
        return UserNode(role_of(state), port, state)

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

    def evidence(self) -> list[Path]:
        """What nodes kept against the board."""
        return sorted(self.folder.glob("state-*/evidence-*"))


def entries(folder: Path) -> list[Any]:
    """What a state holds, by its framing alone: the identity, then kind and fields of what was done."""
    content, found, at = (folder / FILE).read_bytes(), [], len(MAGIC)
    while at < len(content):
        size = int.from_bytes(content[at : at + 4], "little")
        found.append(unpack(content[at + 4 : at + 4 + size]))
        at += 4 + size + 32
    return found


def done(folder: Path) -> list[str | int]:
    """The rounds a node answered by its state, and whether it sat down and finished."""
    return [fields["round"] if kind == "answered" else kind for kind, fields in entries(folder)[1:]]


async def seat(node: AnalystNode | UserNode) -> None:
    """Serve, and leave the table when it is over."""
    await node.serve()
    node.port.close()
    if isinstance(node, UserNode):
        node.state.close()


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; the limit only keeps a broken test from hanging."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
