"""Quantise and randomise (Bell, Bellet, Gascon, Kulkarni 2020, Algorithm 1): the earlier way for Lipschitz kernels.

Inputs are rounded to few bins, each user's bin goes through randomized response with the whole budget, and the
kernel at the bins' middles is averaged over pairs of different users, debiased. Rounding costs a bias of the order
1/q and randomized response a noise that grows with q, so the best number of bins q is of the order n^(1/4).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.tally import Tally
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.baselines.oracle_moments import coarsened
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import Part
from parley.protocols.non_interactive import NonInteractive, OnlyRound
from parley.protocols.parameters import count
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

# Kernels of one ordered column: neighbouring inputs stand for neighbouring values.
ORDERED = ("threshold", "lipschitz", "kernel")
MOST_BINS = 128
LARGEST_SIZE = 4096


@dataclass(frozen=True, kw_only=True)
class Quantise(NonInteractive):
    """Few bins, randomized response, a debiased mean over pairs.

    Formal guarantee: eps-LDP. The only reply is one bin by q-ary randomized response.
    """

    name: ClassVar[str] = "quantise"
    summary: ClassVar[str] = "Baseline (Bell et al. 2020): round to few bins, randomized response, debiased pairs"

    bins: int

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        """The number of bins with the smallest sum of squared bias and noise, both at their worst."""
        sizes = {round(size) for size in np.geomspace(2, min(MOST_BINS, workload.size), 24)}
        drafts = [cls(workload=workload, epsilon=epsilon, users=users, bins=bins) for bins in sorted(sizes)]
        return min(drafts, key=lambda draft: draft.form_variance((users,)))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(**common(parameters, "bins"), bins=count(parameters, "bins", 2, MOST_BINS))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workload.kind not in ORDERED:
            raise BadInput(f"quantise is for kernels of one ordered column, which {self.workload.name} is not")
        if not 2 <= self.bins <= self.inputs <= LARGEST_SIZE:
            raise BadInput(f"{self.bins} bins of {self.inputs} inputs: give 2 bins to as many as there are inputs")

    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters(), "bins": self.bins}

    @cached_property
    def bin_of(self) -> Integers:
        """The bin of every input."""
        return np.arange(self.inputs) * self.bins // self.inputs

    @cached_property
    def coarse(self) -> FrequencyGrr:
        """The same statistic of bins, by randomized response."""
        first = np.searchsorted(self.bin_of, np.arange(self.bins))
        last = np.append(first[1:], self.inputs) - 1
        middles = (first + last) // 2
        kernel = Kernel(self.workload.matrix()[np.ix_(middles, middles)], shift=self.workload.shift)
        return FrequencyGrr(workload=kernel, epsilon=self.epsilon, users=self.users)

    @cached_property
    def _error(self) -> Floats:
        """What rounding does to each pair of inputs."""
        coarse = self.coarse.workload.matrix()
        return np.asarray(coarse[np.ix_(self.bin_of, self.bin_of)] - self.workload.matrix())

    def rounding(self, histogram: Floats | None) -> float:
        """The bias: of this histogram, or the largest there can be."""
        if histogram is None:
            return float(np.abs(self._error).max())
        return float(histogram @ self._error @ histogram)

    @cached_property
    def step(self) -> "Bin":
        return Bin(self)

    def form(self, tally: Tally) -> float:
        """The debiased mean over pairs, as Bell et al.'s estimator."""
        return self.coarse.form(tally)

    def means(self, tally: Tally) -> dict[str, float]:
        return {}

    def mean_variances(self, replies: int) -> dict[str, float]:
        return {}

    def value(self, form: float, means: Mapping[str, float], replies: int) -> float:
        return form

    def slopes(self, form: float, means: Mapping[str, float], replies: int) -> Mapping[str, float]:
        return {"form": 1.0}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        binned = None if histogram is None else coarsened(histogram, self.bin_of, self.bins)
        return self.rounding(histogram) ** 2 + self.coarse.form_variance(replies, binned)

    def seen_variance(self, tally: Tally) -> float:
        """Nobody sees the bias, which lies within a known bound of 0, so it is taken for uniform."""
        return self.rounding(None) ** 2 / 3 + self.coarse.seen_variance(tally)


class Bin(OnlyRound):
    """Each user sends its bin through randomized response."""

    name = "bin"

    def __init__(self, protocol: Quantise) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.protocol.coarse.step.parts

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"category": self.protocol.bin_of[inputs].astype(np.float64)}
