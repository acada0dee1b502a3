"""A board's record in memory, with its tree and signed closes: what a node wants to see before it goes on."""

import hashlib

from parley.emulator.record.merkle import Tree, leaf_of
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Close, Message, Receipt, Seating
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.state.receipts import Receipts
from tests.emulator.samples import KEY, NONCE, RUN, setup

BOARD, ANALYST, NODE = (derived(KEY, name) for name in ("board", "analyst", "n"))
SIGNED = {"board": BOARD.public, "analyst": ANALYST.public}
"""What a consent says about keys."""


def seating(key: bytes = NODE.public, **changes: object) -> Seating:
    """Which key holds the seat of node n."""
    return Seating(**{"run": RUN, "node": "n", "key": key, "nonce": NONCE, **changes})  # type: ignore[arg-type]


class Ledger:
    """Numbers what it is given, closes rounds, hands out receipts."""

    def __init__(self, run: str = RUN, nonce: bytes = NONCE) -> None:
        self.run, self.nonce = run, nonce
        self.tree = Tree()
        self.receipts = Receipts(run)
        self.put("analyst", setup(), encode(setup()))

    def put(self, sender: str, message: Message, frame: bytes) -> None:
        """Put a frame on record."""
        sequence, now = len(self.tree), 10**9 + len(self.tree)
        self.tree.append(leaf_of(sequence, now, sender, hashlib.sha256(frame).digest()))
        self.receipts.note(sequence, now, message, frame)

    def close(self, number: int, *, absent: tuple[str, ...] = (), signer: Signer = BOARD) -> bytes:
        """Close a round under the board's signature; the frame."""
        close = Close(
            run=self.run,
            round=number,
            replies=0,
            missing=0,
            absent=absent,
            size=len(self.tree),
            root=self.tree.root(),
        )
        frame = encode(close, signer, self.nonce)
        self.put("board", close, frame)
        return frame

    def receipt(self, number: int, node: str = "n") -> Receipt:
        """What the board shows a node of a closed round."""
        found = self.receipts.make(node, number, self.tree)
        assert found is not None
        return found
