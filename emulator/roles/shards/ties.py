"""What ties a shard to the whole run, and how anybody checks it without seeing the other shards.

The head board's record holds each shard's answer, which holds the signed close of that shard's board. So the signed
close of the head board covers the heads of all shards: it is one tree over them. A tie shows the path from one shard's
answer to the head of that tree.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.merkle import digests_of, is_consistent, is_included, leaf_of
from parley.emulator.roles.node_memory import Distrust, Evidence
from parley.emulator.wire.codec import decode, said_by
from parley.emulator.wire.messages import Close, Receipt, Tally, Tie


@dataclass(frozen=True, kw_only=True)
class Tied:
    """What a tie proves: the head of the whole run, and the shard's close below it, empty if it was declared missing.

    `extends`: whether this head extends the one that was known before.
    """

    size: int
    root: bytes
    close: bytes
    shard_close: bytes
    extends: bool


def check_tie(tie: Tie, head: bytes | None, nonce: bytes, before: tuple[int, bytes] = (0, b"")) -> Tied:
    """What a tie proves under the head board's key; RemoteProtocolError where it proves nothing.

    Without a key, only what it says is looked at, not who said it.
    """

    def refuse(what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"the tie of {tie.node} in round {tie.round}: {what}")

    receipt = decode(tie.receipt)
    if not isinstance(receipt, Receipt) or (receipt.run, receipt.round, receipt.node) != (tie.run, tie.round, tie.node):
        raise refuse("it holds no receipt for this round")
    close = decode(receipt.close)
    if not isinstance(close, Close) or (close.run, close.round) != (tie.run, tie.round):
        raise refuse("it holds no close of this round")
    if head is not None and not said_by(head, receipt.close, close, nonce):
        raise refuse("the head board did not sign its close")
    (size, root), path = before, digests_of(receipt.consistency)
    extends = not size or (receipt.before == size and is_consistent(size, root, close.size, close.root, path))
    found = Tied(size=close.size, root=close.root, close=receipt.close, shard_close=b"", extends=extends)
    if tie.node in close.absent:
        return found
    tally = decode(tie.tally)
    if not isinstance(tally, Tally) or (tally.run, tally.round, tally.node) != (tie.run, tie.round, tie.node):
        raise refuse("it holds no tally of this round")
    if len(receipt.chunks) != 1:
        raise refuse("the receipt does not show where the tally is")
    place, digest = receipt.sequences[0], hashlib.sha256(tie.tally).digest()
    leaf = leaf_of(place, receipt.times[0], tie.node, digest)
    if not is_included(leaf, place, close.size, digests_of(receipt.paths[0]), close.root):
        raise refuse("the tally is not below the head that the head board signed")
    shard_close = decode(tally.close)
    if not isinstance(shard_close, Close) or (shard_close.run, shard_close.round) != (tie.run, tie.round):
        raise refuse("the tally holds no close of the shard's board")
    return replace(found, shard_close=tally.close)


class Ties:
    """A user node's view of the whole run: the last head of it, and which close of its own board lies below it."""

    def __init__(self, node: str, shard: str, board: bytes, head: bytes, known: tuple[int, bytes] = (0, b"")) -> None:
        """`shard` is the name of the node's own shard, `board` the key of its board, `head` that of the head board."""
        self._node, self._shard, self._board, self._head = node, shard, board, head
        self.known = known
        self._rounds: dict[int, Tied] = {}

    def take(self, tie: Tie, nonce: bytes, frames: Callable[[int], tuple[bytes, ...]]) -> None:
        """Believe a tie that proves itself. A head that does not extend the one before is a lie, and raises."""
        if tie.round in self._rounds:
            return
        if tie.node != self._shard:
            # Also where its shard was declared missing: that says nothing about this one.
            raise RemoteProtocolError(f"node {self._node}: a tie of {tie.node}, which is another shard than its own")
        tied = check_tie(tie, self._head, nonce, self.known)
        if tied.shard_close and not said_by(self._board, tied.shard_close, decode(tied.shard_close), nonce):
            raise RemoteProtocolError(f"node {self._node}: a tie of {tie.node} with a close its board did not sign")
        if not tied.extends:
            what = "the head of the whole run does not extend the one before"
            raise self._distrust(tie.run, tie.round, what, frames, tied.close)
        self.known, self._rounds[tie.round] = (tied.size, tied.root), tied

    def covers(self, receipt: Receipt, nonce: bytes, frames: Callable[[int], tuple[bytes, ...]]) -> bool:
        """Whether the close in this receipt is below the head of the whole run, or its shard was declared missing."""
        tied = self._rounds.get(receipt.round)
        if tied is None or tied.shard_close in (b"", receipt.close):
            return tied is not None
        if said_by(self._board, receipt.close, decode(receipt.close), nonce):
            what = "the board signed another close for the whole run than the one it shows"
            raise self._distrust(receipt.run, receipt.round, what, frames, receipt.close, tied.shard_close)
        return False

    def _distrust(
        self,
        run: str,
        number: int,
        reason: str,
        frames: Callable[[int], tuple[bytes, ...]],
        close: bytes,
        other: bytes = b"",
    ) -> Distrust:
        """`other`: the second of two signed closes that cannot both be true."""
        node, sent = self._node, frames(number)
        return Distrust(
            Evidence(run=run, node=node, round=number, reason=reason, close=close, frames=sent, before=other)
        )
