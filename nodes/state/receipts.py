"""What the board keeps in order to show a node its own frames on record: where they are, and the close behind them.

It is a function of the record: a board that was killed reads it again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from parley.emulator.record.merkle import Tree
from parley.emulator.wire.messages import Close, Message, Receipt, Replies, Tally


@dataclass
class _Round:
    places: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    close: bytes = b""
    size: int = 0


class Receipts:
    """For each closed round, each node's chunks with the number and time of their records."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._rounds: dict[int, _Round] = {}

    def note(self, sequence: int, time_ns: int, message: Message, frame: bytes) -> None:
        if isinstance(message, Replies | Tally):
            chunk = message.chunk if isinstance(message, Replies) else 0
            self.note_chunks(message.round, [(message.node, chunk)], sequence, time_ns)
        elif isinstance(message, Close):
            closed = self._rounds.setdefault(message.round, _Round())
            closed.close, closed.size = frame, message.size

    def note_chunks(self, number: int, chunks: Iterable[tuple[str, int]], first: int, time_ns: int) -> None:
        """Chunks of nodes in a round that were recorded at one time, with numbers from `first` on."""
        places = self._rounds.setdefault(number, _Round()).places
        for sequence, (node, chunk) in enumerate(chunks, first):
            if node not in places:
                places[node] = []
            places[node].append((chunk, sequence, time_ns))

    def make(self, node: str, number: int, tree: Tree) -> Receipt | None:
        """The receipt of a node for a round that is closed under a signed head; None for any other."""
        found = self._rounds.get(number)
        if found is None or not found.size:
            return None
        chunks = found.places.get(node, [])
        earlier = self._rounds.get(number - 1)
        before = earlier.size if earlier is not None else 0
        return Receipt(
            run=self._run,
            round=number,
            node=node,
            close=found.close,
            chunks=tuple(chunk for chunk, _, _ in chunks),
            sequences=tuple(sequence for _, sequence, _ in chunks),
            times=tuple(time_ns for _, _, time_ns in chunks),
            paths=tuple(b"".join(tree.inclusion(sequence, found.size)) for _, sequence, _ in chunks),
            before=before,
            consistency=b"".join(tree.consistency(before, found.size)) if before else b"",
        )
