"""Who speaks in an attack: everybody's keys, what nodes agreed to, and frames that no honest party would make."""

import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import key_from_seed, setup_digest
from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree
from parley.emulator.record.records import Record
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Message,
    Pledge,
    Receipt,
    Result,
    Roster,
    Seating,
    Setup,
)
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.receipts import Receipts
from parley.nodes.state.user_state import Identity, State
from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_workload
from parley.protocols.workloads.workload import Workload

RUN = "attacked"
NODE = "victim"
NONCE = bytes(range(16))
USERS = 40
HOSTED = 12
EPSILON = 1.0
INPUTS = 4
ANALYST, BOARD, SHUFFLER, OWN, STRANGER = (Signer(bytes([number]) * 32) for number in range(1, 6))
COIN_KEY = key_from_seed(11)
# Not every statistic is for every protocol; all of these have four inputs, and eight at twice the levels.
STATISTICS = {"quantise": "gini-mean-difference", "hierarchical": "auc", "binned": "auc"}


def workload_of(name: str, inputs: int = INPUTS) -> Workload:
    """A small statistic that this protocol can estimate."""
    statistic = STATISTICS.get(name, "gini-diversity")
    return make_workload(statistic, str(inputs // 2 if statistic == "auc" else inputs), None)


@cache
def spoken(name: str, *, inputs: int = INPUTS, epsilon: float = EPSILON) -> Protocol:
    """A protocol over a small domain."""
    return design(name, workload_of(name, inputs), epsilon=epsilon, users=USERS)


def setup_of(protocol: Protocol, run: str = RUN, **changed: Any) -> Setup:
    """The setup an honest analyst sends."""
    claim = protocol.claim
    honest = Setup(
        run=run,
        protocol=protocol.name,
        parameters=protocol.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        version=protocol.version,
        domain=domain_of(protocol.inputs),
        nonce=NONCE,
    )
    return replace(honest, **changed)


@cache
def announces_of(name: str) -> tuple[Announce, ...]:
    """The broadcasts of an honest run, the same for every input of the node under attack."""
    protocol = spoken(name)
    inputs = np.arange(USERS, dtype=np.int64) % protocol.inputs
    said = (message for _, message in conversation(protocol, inputs, key_from_seed(5), run=RUN))
    return tuple(message for message in said if isinstance(message, Announce))


def consent_for(protocol: Protocol, **changed: Any) -> Consent:
    """Users who agreed to this protocol in this run, from these parties, and to nothing else."""
    claim = protocol.claim
    agreed = Consent(
        run=RUN,
        domain=domain_of(protocol.inputs),
        cap=claim.epsilon,
        delta=claim.delta,
        trusts=claim.trusts,
        analyst=ANALYST.public,
        board=BOARD.public,
        shuffler=SHUFFLER.public if claim.trusts == "shuffler" else b"",
    )
    return replace(agreed, **changed)


def make_state(folder: Path, consent: Consent, *, node: str = NODE, first: int = 0, users: int = HOSTED) -> Path:
    """The state of a node under attack."""
    identity = Identity(node=node, first=first, users=users, consent=consent, coin_key=COIN_KEY, signing_key=OWN.secret)
    State.create(folder, identity, durable=False)
    return folder


def result(run: str = RUN) -> Result:
    return Result(run=run, estimate=0.0, predicted_rmse=0.0, low=0.0, high=0.0, replied=0)


def abort(run: str = RUN, nonce: bytes = NONCE) -> Abort:
    return Abort(run=run, outcome="aborted", reason="enough", nonce=nonce)


def seating(node: str = NODE, key: bytes = OWN.public, nonce: bytes = NONCE, run: str = RUN) -> Seating:
    """The board's word about whose a seat is."""
    return Seating(run=run, node=node, key=key, nonce=nonce)


def pledge(setup: Setup) -> bytes:
    """The shuffler's word that it serves this setup."""
    return encode(Pledge(run=setup.run, setup=setup_digest(setup)), SHUFFLER)


def unchecked(message: Message, **changed: Any) -> Message:
    """A message with fields that it would not have let through when it was made."""
    other = replace(message)  # type: ignore[type-var]
    for name, value in changed.items():
        object.__setattr__(other, name, value)
    return other


def summed(body: bytes) -> bytes:
    """Bytes with a checksum that is right, so that they themselves are looked at."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def spoiled(announce: Announce, value: float, signer: Signer = ANALYST) -> bytes:
    """A broadcast in which one number is not finite, signed: the codec of an honest analyst would not write it."""
    mark = 1.2345678901234567
    arrays = {name: array for name, array in announce.broadcast.items() if array.dtype.kind == "f"} or {
        "mu": np.zeros(3)
    }
    marked = {name: array.copy() for name, array in arrays.items()}
    next(iter(marked.values())).flat[0] = mark
    body = encode(replace(announce, broadcast={**announce.broadcast, **marked}))[:-4]
    body = body.replace(np.float64(mark).tobytes(), np.float64(value).tobytes())
    return summed(body + signer.sign("announce", NONCE, body))


@dataclass
class Ledger:
    """The record of a board that may lie: what it holds, and what it can show of it."""

    run: str = RUN
    nonce: bytes = NONCE

    def __post_init__(self) -> None:
        self.tree = Tree()
        self.frames: list[bytes] = []
        self._receipts = Receipts(self.run)
        roster = Roster(run=self.run, nodes=1, users=USERS, nonce=self.nonce)
        self.hold("board", encode(roster, BOARD), roster)

    def hold(self, sender: str, frame: bytes, message: Message) -> None:
        """Write a frame down."""
        time_ns = 10**18 + len(self.frames)
        record = Record(sequence=len(self.frames), time_ns=time_ns, sender=sender, frame=frame, offset=0)
        self.frames.append(frame)
        self.tree.append(record.leaf)
        self._receipts.note(record.sequence, time_ns, message, frame)

    def close(self, number: int, *, absent: tuple[str, ...] = (), signer: Signer = BOARD, **changed: Any) -> bytes:
        """Close a round under the head of the tree as it is."""
        head = {"size": len(self.tree), "root": self.tree.root()}
        close = Close(run=self.run, round=number, replies=1, missing=0, absent=absent, **{**head, **changed})
        frame = encode(close, signer, self.nonce)
        self.hold("board", frame, close)
        return frame

    def receipt(self, node: str, number: int, **changed: Any) -> Receipt:
        """What the board shows a node of a closed round."""
        found = self._receipts.make(node, number, self.tree)
        assert found is not None, f"round {number} is not closed"
        return replace(found, **changed)
