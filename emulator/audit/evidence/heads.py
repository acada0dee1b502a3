"""The heads of the tree over the record: each close and the closing record say what was on record by then."""

from parley.emulator.record.merkle import Tree
from parley.emulator.record.records import Closing, Record
from parley.emulator.wire.messages import Close, Message


class Heads:
    """Builds the tree again and holds every head on record against it. Heads that are all right extend each other."""

    def __init__(self) -> None:
        self._tree = Tree()
        self.covered = 0
        """How many records the last right head covers."""
        self.count = 0

    def take(self, record: Record, message: Message) -> str:
        """Add one record; what is wrong with the head it holds, empty where nothing is."""
        wrong = self._check_close(record, message) if isinstance(message, Close) else ""
        self._tree.append(record.leaf)
        return wrong

    def end(self, closing: Closing) -> str:
        """What is wrong with the head in the closing record."""
        if closing.root == self._tree.root():
            return ""
        return f"the closing record does not cover the records before it: {self.rewritten('the end')}"

    def rewritten(self, until: str) -> str:
        """Where the record can have been changed."""
        return f"the record was rewritten between record {self.covered} and {until}"

    def _check_close(self, record: Record, close: Close) -> str:
        if (close.size, close.root) != (len(self._tree), self._tree.root()):
            where = self.rewritten(f"record {record.sequence}")
            return f"the head in the close of round {close.round} does not cover the records before it: {where}"
        self.covered, self.count = close.size, self.count + 1
        return ""
