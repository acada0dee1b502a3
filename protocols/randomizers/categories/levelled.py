"""Subset selection at one of several levels, for inputs that have a category at each: the nodes of a tree."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Array, Coins, Columns, Floats, Integers, Randomizer, Shape
from parley.protocols.randomizers.categories.oracle import check_categories
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.exact import WORD_BYTES, check_count, words

MOST_LEVELS = 256
HALF_WORD = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class LevelledSelection(Randomizer):
    """Draw a level, each alike, and send the input's category there through subset selection.

    Formal guarantee: the level has the same law for every input, and at each level a reply's probabilities under two
    inputs differ by at most e^eps exactly (`SubsetSelection`).

    Attacks. Which level is drawn, and so how long the work takes, is public.

    An input is a row: its category at every level. `categories` says how many there are at each.
    """

    categories: tuple[int, ...]
    epsilon: float
    unit = 1.0
    reach = (0, 1)

    def __post_init__(self) -> None:
        check_count("the number of levels", self.depth, 1, MOST_LEVELS)
        self.oracles  # noqa: B018  (an oracle that cannot be is refused when the randomizer is made)

    @property
    def depth(self) -> int:
        return len(self.categories)

    @cached_property
    def oracles(self) -> tuple[SubsetSelection, ...]:
        return tuple(SubsetSelection(categories=each, epsilon=self.epsilon) for each in self.categories)

    @property
    def coins(self) -> int:
        return WORD_BYTES + self.oracles[0].coins

    @property
    def work(self) -> int:
        return max(oracle.work for oracle in self.oracles)

    @property
    def reply(self) -> Shape:
        return {"level": (np.dtype(np.uint8), ()), **self.oracles[0].reply}

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """The upper half of the first word, scaled down, is the level."""
        truth = self._categories(inputs)
        word = words(coins[:, :WORD_BYTES], 1)[:, 0] >> HALF_WORD
        level = ((word * np.uint64(self.depth)) >> HALF_WORD).astype(np.uint8)
        columns: dict[str, Array] = {name: np.zeros(len(truth), dtype) for name, (dtype, _) in self.reply.items()}
        columns["level"] = level
        for number, oracle in enumerate(self.oracles):
            rows = level == number
            for name, column in oracle.sample(truth[rows, number], coins[rows, WORD_BYTES:]).items():
                columns[name][rows] = column
        return columns

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        accepted = np.zeros(len(reply["level"]), dtype=np.bool_)
        for number, oracle in enumerate(self.oracles):
            rows = reply["level"] == number
            accepted[rows] = oracle.check(_subsets(reply, rows))
        return accepted

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        """log P(subset | level, x); the level's own probability is the same for every input and left out."""
        truth = self._categories(inputs)
        result = np.full((len(reply["level"]), len(truth)), -np.inf)
        for number, oracle in enumerate(self.oracles):
            rows = reply["level"] == number
            result[rows] = oracle.log_likelihood(_subsets(reply, rows), truth[:, number].astype(np.float64))
        return result

    def decode(self, reply: Columns) -> Floats:
        """What a reply adds to `total`. At a level, its oracle's `unit` and `offset` turn that into frequencies."""
        rows = len(reply["level"])
        blocks = [np.zeros((rows, categories)) for categories in (*self.categories, self.depth)]
        for number, oracle in enumerate(self.oracles):
            mine = reply["level"] == number
            blocks[number][mine] = oracle.support(_subsets(reply, mine))
            blocks[-1][mine, number] = 1.0
        return np.concatenate(blocks, axis=1)

    def total(self, reply: Columns) -> Integers:
        """Level after level, how many replies support each category; at the end, how many replies each level has."""
        levels = reply["level"].astype(np.int64)
        counts = [oracle.total(_subsets(reply, levels == number)) for number, oracle in enumerate(self.oracles)]
        return np.concatenate([*counts, np.bincount(levels, minlength=self.depth)]).astype(np.int64)

    def at_levels(self, total: Integers) -> list[tuple[int, Integers]]:
        """What `total` says of each level: its replies, and how many of them support each of its categories."""
        *counts, replies = np.split(total, np.cumsum(self.categories))
        return list(zip(replies.tolist(), counts, strict=True))

    @property
    def variance(self) -> float:
        """That of a 0 or 1, which is 1 for a level's share of the replies or fewer of them."""
        supported = [chance for oracle in self.oracles for chance in (oracle.own, oracle.other)]
        shares = [chance / self.depth for chance in (1.0, *supported)]
        return max(share * (1 - share) for share in shares)

    def _categories(self, inputs: Floats) -> Integers:
        if inputs.ndim != 2 or inputs.shape[1] != self.depth:
            raise BadInput(f"inputs have shape {inputs.shape}; give one category per level and user")
        checked = [check_categories(column, size) for column, size in zip(inputs.T, self.categories, strict=True)]
        return np.stack(checked, axis=1)


def _subsets(reply: Columns, rows: NDArray[np.bool_]) -> Columns:
    return {name: column[rows] for name, column in reply.items() if name != "level"}
