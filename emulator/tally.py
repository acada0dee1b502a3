"""What the analyst keeps of replies: integer sums."""

from collections.abc import Mapping
from dataclasses import dataclass

from parley.emulator.randomizer import Integers


@dataclass(frozen=True)
class Tally:
    """Integer sums over replies. Addition is exact, so order and framing never matter."""

    replies: int
    sums: Mapping[str, Integers]

    def empty(self) -> "Tally":
        """The tally of nobody, with the same sums."""
        return Tally(0, {name: total * 0 for name, total in self.sums.items()})

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.replies + other.replies,
            {name: total + other.sums[name] for name, total in self.sums.items()},
        )
