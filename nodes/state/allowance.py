"""How much may be added to the record beyond what the protocol needs.

Events, dropped frames, restarts and refused connections are worth knowing, but whoever sends them decides how many
there are. Each name, and all names together, have an allowance in bytes and in number: without keys a peer can
invent any number of names. When one is used up a last record says so, and from then on nothing of it is written.
"""

from collections import Counter
from dataclasses import dataclass, field

from parley.emulator.wire.messages import Event

MOST_BYTES_EACH, MOST_BYTES = 2**20, 16 * 2**20
MOST_RECORDS_EACH, MOST_RECORDS = 10_000, 100_000
EVERYBODY = ""
# Begins the last record of an allowance, by which a restarted board knows it.
USED_UP = "nothing more of this kind is written down"
OF_ANYBODY = "of anybody at all"


@dataclass
class Allowance:
    """What each name has used. It is charged with what is on record, so that a restarted board goes on from there."""

    _bytes: Counter[str] = field(default_factory=Counter)
    _records: Counter[str] = field(default_factory=Counter)
    _told: set[str] = field(default_factory=set)

    def charge(self, event: Event, size: int) -> None:
        """An event of so many bytes is on record."""
        for name in (event.node, EVERYBODY):
            self._bytes[name] += size
            self._records[name] += 1
        if event.event == "drop" and event.detail.startswith(USED_UP):
            self._told.add(EVERYBODY if OF_ANYBODY in event.detail else event.node)

    def permits(self, name: str, size: int) -> bool:
        """Whether so many bytes more may be written because of this name."""
        return not (self._is_spent(name, size) or self._is_spent(EVERYBODY, size))

    def last_word(self, name: str, size: int) -> str | None:
        """What to write down once when so many bytes were not permitted; None when that has been said."""
        spent = EVERYBODY if self._is_spent(EVERYBODY, size) else name
        if spent in self._told:
            return None
        self._told.add(spent)
        most, number = _limits(spent)
        whose = f"of {name}" if spent else OF_ANYBODY
        return f"{USED_UP}: the {most} bytes or {number} records {whose} beyond the protocol are used up"

    def _is_spent(self, name: str, size: int) -> bool:
        most, number = _limits(name)
        return name in self._told or self._bytes[name] + size > most or self._records[name] >= number


def _limits(name: str) -> tuple[int, int]:
    return (MOST_BYTES, MOST_RECORDS) if name == EVERYBODY else (MOST_BYTES_EACH, MOST_RECORDS_EACH)
