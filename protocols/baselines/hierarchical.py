"""The AUC by a hierarchical histogram (Bell et al. 2020, Section 5; Cormode and Markov 2022), a baseline.

A binary tree over the score levels. Two scores differ first at one level of the tree, where they lie in sibling
nodes, so sgn(s - t) is the sum over levels of the sign between siblings. Each user draws a level and sends its node
there together with its label, through subset selection with the whole budget. Each level's form is the debiased
mean over pairs of its own users.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Array, Coins, Columns, Floats, Integers, Shape
from parley.emulator.tally import Tally
from parley.protocols.baselines.frequency import FrequencySubset
from parley.protocols.baselines.oracle_moments import coarsened
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.non_interactive import NonInteractive
from parley.protocols.randomizers.exact import WORD_BYTES, words
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

LARGEST_LEVELS = 1024
HALF_WORD = np.uint64(32)


@dataclass(frozen=True, kw_only=True)
class Hierarchical(NonInteractive):
    """One node of one level of the tree, with the label.

    Formal guarantee: eps-LDP. The level does not depend on the input, and the reply at that level is one subset by
    subset selection with all of eps.
    """

    name: ClassVar[str] = "hierarchical"
    summary: ClassVar[str] = "Baseline for the AUC: hierarchical histogram of scores by label, one level a user"

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        return cls(workload=workload, epsilon=epsilon, users=users)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(**common(parameters))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.workload, AreaUnderCurve):
            raise BadInput(f"hierarchical is for the AUC, not for {self.workload.name}")
        if self.workload.levels > LARGEST_LEVELS:
            raise BadInput(f"{self.workload.levels} score levels are more than the limit of {LARGEST_LEVELS}")

    @property
    def depth(self) -> int:
        """Levels of the tree below its root."""
        return (self.inputs // 2 - 1).bit_length()

    @cached_property
    def categories(self) -> tuple[Integers, ...]:
        """For every level, the category 2 * node + label of each input."""
        scores, labels = np.divmod(np.arange(self.inputs), 2)
        return tuple(2 * (scores >> (self.depth - level)) + labels for level in range(1, self.depth + 1))

    @cached_property
    def levels(self) -> tuple[FrequencySubset, ...]:
        """For every level, the histogram of its categories and the form of siblings with opposite labels."""
        users = max(2, self.users // self.depth)
        return tuple(
            FrequencySubset(workload=Kernel(siblings(1 << level)), epsilon=self.epsilon, users=users)
            for level in range(1, self.depth + 1)
        )

    @cached_property
    def step(self) -> "Level":
        return Level(self)

    def form(self, tally: Tally) -> float:
        """The sum of the levels' forms; of all pairs, a share 1/n is of users with themselves and adds nothing."""
        pairs = sum(
            level.form(part) for level, part in zip(self.levels, self.parts(tally), strict=True) if part.replies
        )
        return float(pairs) * (1 - 1 / max(2, tally.replies))

    def parts(self, tally: Tally) -> list[Tally]:
        """Each level's own tally."""
        return [
            Tally(int(replies), {"category": tally.sums[f"level-{number}"]})
            for number, replies in enumerate(np.asarray(tally.sums["replies"]), 1)
        ]

    def means(self, tally: Tally) -> dict[str, float]:
        """n+/n as the levels' estimates weighted by what each is worth."""
        estimates = [
            float(labels(level.inputs) @ level.histogram(part)) if part.replies else 0.5
            for level, part in zip(self.levels, self.parts(tally), strict=True)
        ]
        return {"positive": float(self._weights @ estimates)}

    @cached_property
    def _label_variances(self) -> Floats:
        """The noise of each level's n+/n, times its users; a share in the sampling of users included."""
        even = [np.full(level.inputs, 1 / level.inputs) for level in self.levels]
        noise = [level.support.along(labels(level.inputs), each) for level, each in zip(self.levels, even, strict=True)]
        return np.array(noise) + 0.25

    @cached_property
    def _weights(self) -> Floats:
        return np.asarray(1 / self._label_variances / (1 / self._label_variances).sum())

    def mean_variances(self, replies: int) -> dict[str, float]:
        return {"positive": float(self._weights**2 @ self._label_variances) * self.depth / replies}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Every level's own error with n/depth users, and which users it got."""
        each = replies[0] / self.depth
        if histogram is None:
            noise = sum(level.form_variance((max(1, round(each)),)) for level in self.levels)
            return noise + self.depth**2 / replies[0]
        return self._variance({"form": 1.0, "positive": 0.0}, histogram, replies[0])

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """By the gradient of the whole ratio: its two halves come from the same replies."""
        if histogram is None:
            return super().predicted_rmse()
        means = {"positive": float(self.workload.linear_queries()["positive"] @ histogram)}
        slopes = self.slopes(self.workload.form(histogram), means, self.users)
        return math.sqrt(self._variance(slopes, histogram, self.users))

    def seen_variance(self, tally: Tally) -> float:
        """Each level's error as its tally shows it, and at most what the choice of its users adds."""
        heard = [(level, part) for level, part in zip(self.levels, self.parts(tally), strict=True) if part.replies]
        noise = sum(level.seen_variance(part) for level, part in heard)
        spread = [float(np.ptp(level.apply(level.histogram(part)))) for level, part in heard]
        return noise + self.depth * min(self.depth, float(np.square(spread).sum())) / tally.replies

    def _variance(self, slopes: Mapping[str, float], histogram: Floats, users: int) -> float:
        """Noise and sampling of every level; all users together are no sample, which takes a part back."""
        each, total, whole = users / self.depth, 0.0, np.zeros(self.inputs)
        for level, category, weight in zip(self.levels, self.categories, self._weights, strict=True):
            coarse = coarsened(histogram, category, level.inputs)
            gradient = slopes["form"] * 2 * level.apply(coarse) + slopes["positive"] * weight * labels(level.inputs)
            total += (level.support.along(gradient, coarse) + variance(gradient, coarse)) / each
            total += slopes["form"] ** 2 * level.quadratic(coarse) / each**2
            whole += gradient[category]
        return total - variance(whole, histogram) / users


class Level(Round):
    """Each user draws a level and sends its category there."""

    name = "level"

    def __init__(self, protocol: Hierarchical) -> None:
        self.protocol = protocol

    @property
    def broadcast(self) -> Shape:
        return {}

    @property
    def reply(self) -> Shape:
        return {"level": (np.dtype(np.uint8), ()), **self.protocol.levels[0].oracle.reply}

    @property
    def coins(self) -> int:
        return WORD_BYTES + self.protocol.levels[0].oracle.coins

    @property
    def work(self) -> int:
        return max(level.oracle.work for level in self.protocol.levels)

    @property
    def epsilon(self) -> float:
        return self.protocol.epsilon

    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        word = words(coins[:, :WORD_BYTES], 1)[:, 0] >> HALF_WORD
        chosen = ((word * np.uint64(self.protocol.depth)) >> HALF_WORD).astype(np.uint8)
        columns: dict[str, Array] = {"level": chosen}
        for name, (dtype, _) in self.protocol.levels[0].oracle.reply.items():
            columns[name] = np.zeros(len(inputs), dtype)
        for number, level in enumerate(self.protocol.levels):
            rows = chosen == number
            category = self.protocol.categories[number][inputs[rows]].astype(np.float64)
            for name, column in level.oracle.sample(category, coins[rows, WORD_BYTES:]).items():
                columns[name][rows] = column
        return columns

    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        good = np.zeros(len(replies["level"]), dtype=np.bool_)
        for number, level in enumerate(self.protocol.levels):
            rows = replies["level"] == number
            good[rows] = level.oracle.check(_own(replies, rows))
        return good

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        """The level has the same probability for every input, so only the reply at that level counts."""
        result = np.empty((len(replies["level"]), self.protocol.inputs))
        for number, level in enumerate(self.protocol.levels):
            rows = replies["level"] == number
            categories = self.protocol.categories[number].astype(np.float64)
            result[rows] = level.oracle.log_likelihood(_own(replies, rows), categories)
        return result

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        """Each level's counts of its categories and of its replies."""
        number_of = replies["level"].astype(np.int64)
        sums: dict[str, Integers] = {
            "replies": np.bincount(number_of, minlength=self.protocol.depth).astype(np.int64),
        }
        for number, level in enumerate(self.protocol.levels):
            sums[f"level-{number + 1}"] = level.oracle.total(_own(replies, number_of == number))
        return Tally(len(number_of), sums)


def siblings(nodes: int) -> Floats:
    """sgn between siblings times sgn between labels, on the categories 2 * node + label."""
    node, label = np.divmod(np.arange(2 * nodes), 2)
    near = (node[:, None] ^ 1) == node[None, :]
    return np.asarray(near * np.sign(node[None, :] - node[:, None]) * np.sign(label[None, :] - label[:, None]), float)


def labels(size: int) -> Floats:
    """1 for the categories of positives."""
    return np.asarray(np.arange(size) % 2, dtype=np.float64)


def variance(values: Floats, histogram: Floats) -> float:
    """The variance of a function of a user drawn from the histogram."""
    return float(histogram @ values**2 - (histogram @ values) ** 2)


def _own(replies: Columns, rows: NDArray[np.bool_]) -> Columns:
    return {name: column[rows] for name, column in replies.items() if name != "level"}
