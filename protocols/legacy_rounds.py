"""Rounds made of randomizers: a user's reply is one or more independently randomised functions of its input.

A `Part` names a function of the input (a row of vectors or scalars over all k inputs) and the randomizer that
hides it. Budgets of the parts add up by basic composition, and so do their exact log-likelihoods.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import MOST_OUTCOMES, WORD_BYTES, Array, Coins, Columns, Floats, Randomizer, Shape
from parley.emulator.round import Round
from parley.emulator.tally import Tally
from parley.emulator.wire.messages import Users

# Numbers of a block of users' vectors: 4 MiB.
BLOCK_NUMBERS = 1 << 19


@dataclass(frozen=True, kw_only=True)
class Part:
    """One randomised function of the input."""

    name: str
    randomizer: Randomizer


class LegacyRound(Round):
    """A round written by hand."""

    def __init__(self) -> None: ...

    name = ""
    broadcast: Shape = {}  # noqa: RUF012
    coins = 0

    @property
    def epsilon(self) -> float | None:
        return None

    def participates(self, users: Users) -> NDArray[np.bool_]:
        return np.ones(len(users), dtype=np.bool_)

    @property
    def work(self) -> int:
        return -(-self.coins // WORD_BYTES)

    def check_broadcast(self, public: Broadcast) -> None: ...

    def outcomes(self, public: Broadcast) -> Columns | None:
        return None


class ComposedRound(LegacyRound):
    """A round whose reply is the parts' replies side by side, in columns `part.column`."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Part, ...]:
        """The randomizers of this round, in the order in which they take their coins."""

    @abstractmethod
    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        """The value of every part at the given inputs."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """k."""

    @property
    def numbers(self) -> int:
        """About how many numbers the functions have for each user: as many as inputs, or 1 where all are scalars."""
        return self.inputs

    def parts_for(self, public: Broadcast) -> tuple[Part, ...]:
        """The randomizers once the broadcast is known: the same columns and coins, perhaps another range."""
        return self.parts

    @property
    def epsilon(self) -> float:
        """Basic composition."""
        return sum(part.randomizer.epsilon for part in self.parts)

    @cached_property
    def reply(self) -> Shape:
        return {
            f"{part.name}.{column}": shape for part in self.parts for column, shape in part.randomizer.reply.items()
        }

    @cached_property
    def coins(self) -> int:
        return sum(part.randomizer.coins for part in self.parts)

    @property
    def work(self) -> int:
        return sum(part.randomizer.work for part in self.parts)

    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        """Block by block: a user's reply depends on that user alone, and vectors of a whole chunk may be large."""
        rows = max(1, BLOCK_NUMBERS // self.numbers)
        blocks = [slice(start, start + rows) for start in range(0, len(inputs), rows)] or [slice(0, 0)]
        parts = [self._respond(public, inputs[block], coins[block]) for block in blocks]
        return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def _respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        values = self.functions(public, inputs)
        replies: dict[str, NDArray[np.generic]] = {}
        start = 0
        for part in self.parts_for(public):
            flips = coins[:, start : start + part.randomizer.coins]
            start += part.randomizer.coins
            sampled = part.randomizer.sample(values[part.name], flips)
            replies.update({f"{part.name}.{column}": values for column, values in sampled.items()})
        return replies

    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        checks = [part.randomizer.check(self._own(part, replies)) for part in self.parts_for(public)]
        return np.asarray(np.logical_and.reduce(checks), dtype=np.bool_)

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        values = self.functions(public, np.arange(self.inputs))
        terms = [
            part.randomizer.log_likelihood(self._own(part, replies), values[part.name])
            for part in self.parts_for(public)
        ]
        total: Floats = np.sum(terms, axis=0)
        return total

    def outcomes(self, public: Broadcast) -> Columns | None:
        """Every combination of the parts' replies."""
        listed: dict[str, Array] = {}
        size = 1
        for part in self.parts_for(public):
            own = part.randomizer.every_reply()
            if own is None:
                return None
            many = len(next(iter(own.values())))
            if size * many > MOST_OUTCOMES:
                return None
            listed = {name: np.repeat(column, many, axis=0) for name, column in listed.items()}
            for name, column in own.items():
                listed[f"{part.name}.{name}"] = np.concatenate([column] * size)
            size *= many
        return listed

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        sums = {
            part.name: np.asarray(part.randomizer.total(self._own(part, replies))) for part in self.parts_for(public)
        }
        return Tally(len(next(iter(replies.values()))), sums)

    def mean(self, tally: Tally, name: str, public: Broadcast | None = None) -> Floats:
        """The mean of the decoded replies of one part."""
        parts = self.parts if public is None else self.parts_for(public)
        randomizer = next(part.randomizer for part in parts if part.name == name)
        mean: Floats = tally.sums[name] * randomizer.unit / max(1, tally.replies) + randomizer.offset
        return mean

    def _own(self, part: Part, replies: Columns) -> Columns:
        return {column: replies[f"{part.name}.{column}"] for column in part.randomizer.reply}
