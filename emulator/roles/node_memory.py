"""What a user node remembers: what it wrote down, what it sent, and what it has seen on record.

What is a `Commit` is on disk. Receipts are believed in order: round after round, the board shows the node that its
frames are under the signed head of the record, or that it declared them missing.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from parley.emulator.errors import LocalProtocolError, RemoteProtocolError
from parley.emulator.record.merkle import digests_of, is_consistent, is_included, leaf_of
from parley.emulator.wire.codec import decode, said_by
from parley.emulator.wire.messages import Close, Receipt, Replies, Seating


@dataclass(frozen=True, kw_only=True)
class Seated:
    """On disk before any round is answered: the one setup this node takes part in."""

    run: str
    digest: bytes
    nonce: bytes


@dataclass(frozen=True, kw_only=True)
class Answered:
    """On disk before the reply leaves: this round's question, its broadcast, and the head of the record seen so far.

    With the broadcast a node that was killed can say again what it answered, and check that it is on record. In a shard
    `whole_size` and `whole_root` are the head of the whole run. `inputs` tells the inputs it answered about from
    others, to who has the coin key; a state of an earlier version does not know.
    """

    round: int
    question: bytes
    announce: bytes
    size: int = 0
    root: bytes = b""
    whole_size: int = 0
    whole_root: bytes = b""
    inputs: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """On disk before the node leaves: nothing of this run is ever answered again."""

    run: str


Commit = Seated | Answered | Finished


@dataclass
class Memory:
    """What a node knows from an earlier life."""

    seated: Seated | None = None
    answered: dict[int, Answered] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)

    @property
    def round(self) -> int:
        """The last round that was answered."""
        return max(self.answered, default=0)

    def note(self, commit: Commit) -> None:
        if isinstance(commit, Seated):
            self.seated, self.answered = commit, {}
        elif isinstance(commit, Answered):
            self.answered[commit.round] = commit
        else:
            self.finished.add(commit.run)
            self.seated, self.answered = None, {}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a node keeps for others to see: the board's signed close, and the frames this node had sent by then.

    `before` is the signed close of the round before, where the node has seen it in this life: two heads of which one
    does not extend the other.
    """

    run: str
    node: str
    round: int
    reason: str
    close: bytes
    frames: tuple[bytes, ...]
    before: bytes = b""


class Distrust(LocalProtocolError):
    """The node has seen that somebody lies. It stops, and keeps the frames that show it."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(f"node {evidence.node}: round {evidence.round}: {evidence.reason}")
        self.evidence = evidence


class OwnSeat:
    """Whether the seat under a node's name is its own: whose it is, the node is told under a signature.

    `is_known`: it was ever told so. `taken`: it was told so for the run that it takes part in.
    """

    def __init__(self, node: str, key: bytes, *, given: bool) -> None:
        self._node, self._key = node, key
        self._told: Seating | None = None
        self.is_known = self.taken = given

    def note(self, seating: Seating) -> None:
        self._told = seating
        self.is_known |= seating.key == self._key

    def nonce_of(self, run: str) -> bytes:
        """The nonce of a run in which its seat is its own, as it was last told; empty where it was not."""
        told = self._told
        return b"" if told is None or (told.run, told.key) != (run, self._key) else told.nonce

    def take(self, run: str, nonce: bytes) -> None:
        """Take the seat if it is its own. What was signed for another nonce may be old, and proves nothing."""
        if self._told is None or (self._told.run, self._told.nonce) != (run, nonce):
            return
        if self._told.key != self._key:
            raise LocalProtocolError(
                f"node {self._node}: its seat in run {run} is held by another signing key than that of this state, so "
                "nothing is answered; start it with the state that took the seat, or wait for another run"
            )
        self.taken = True


class Receipts:
    """Which rounds are accounted for, and the head of the record at the last of them.

    `frames` gives what the node sent in a round it has answered: the same bytes again, also those of an earlier life.
    """

    def __init__(
        self, node: str, board: bytes, chunks: int, memory: Memory, frames: Callable[[int], Iterator[bytes]]
    ) -> None:
        self._node, self._board, self._chunks, self._memory, self._frames = node, board, chunks, memory, frames
        self._sent: dict[int, dict[int, bytes]] = {}
        # A round is answered only after all before it were accounted for.
        self.proven = max(0, memory.round - 1)
        last = memory.answered.get(memory.round)
        self.head = (0, b"") if last is None else (last.size, last.root)
        self._closed = b""

    def note_sent(self, replies: Replies, frame: bytes) -> None:
        """Keep the digest of a frame until it is shown to be on record."""
        self._sent.setdefault(replies.round, {})[replies.chunk] = hashlib.sha256(frame).digest()

    def believe(self, receipt: Receipt, nonce: bytes) -> Evidence | None:
        """Take in the receipt of the next round; evidence if the board declared an answer missing. Lies raise."""
        number, close = receipt.round, decode(receipt.close)
        if not (isinstance(close, Close) and (close.run, close.round) == (receipt.run, number)):
            what = f"a receipt for round {number} without the close of that round"
            raise RemoteProtocolError(f"node {self._node}: {what}")
        if not said_by(self._board, receipt.close, close, nonce):
            what = f"a receipt for round {number} whose close the board did not sign"
            raise RemoteProtocolError(f"node {self._node}: {what}")
        (size, root), path = self.head, digests_of(receipt.consistency)
        if size and not (receipt.before == size and is_consistent(size, root, close.size, close.root, path)):
            raise Distrust(self._evidence(receipt, "the head of the record does not extend the one before"))
        known, absent = number in self._memory.answered, self._node in close.absent
        if not known and (receipt.chunks or not absent):
            raise Distrust(self._evidence(receipt, "the board has a reply that this node does not remember"))
        if known and not absent and not self._all_included(receipt, close):
            raise Distrust(self._evidence(receipt, "its reply is not on record, and the close does not name it"))
        missing = "it answered, and the board declared its reply missing"
        evidence = self._evidence(receipt, missing) if known and absent else None
        self.proven, self.head, self._closed = number, (close.size, close.root), receipt.close
        self._sent.pop(number, None)
        return evidence

    def _all_included(self, receipt: Receipt, close: Close) -> bool:
        """Whether each of our chunks leads to the signed root."""
        if set(receipt.chunks) != set(range(self._chunks)):
            return False
        if len(self._sent.get(receipt.round, {})) < self._chunks:
            # Sent in an earlier life: making the frames again notes them.
            for _ in self._frames(receipt.round):
                pass
        sent = self._sent[receipt.round]
        shown = zip(receipt.chunks, receipt.sequences, receipt.times, receipt.paths, strict=True)
        leaves = ((leaf_of(place, time, self._node, sent[chunk]), place, path) for chunk, place, time, path in shown)
        return all(is_included(leaf, place, close.size, digests_of(path), close.root) for leaf, place, path in leaves)

    def _evidence(self, receipt: Receipt, reason: str) -> Evidence:
        return Evidence(
            run=receipt.run,
            node=self._node,
            round=receipt.round,
            reason=reason,
            close=receipt.close,
            frames=tuple(self._frames(receipt.round)),
            before=self._closed,
        )
