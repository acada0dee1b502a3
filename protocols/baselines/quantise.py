"""Quantise and randomise (Bell, Bellet, Gascon, Kulkarni 2020, Algorithm 1): the earlier way for Lipschitz kernels.

Inputs are rounded to few bins, each user's bin goes through randomized response with the whole budget, and the
kernel at the bins' middles is averaged over pairs of different users, debiased. Rounding costs a bias of the order
1/q and randomized response a noise that grows with q, so the best number of bins q is of the order n^(1/4).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Send, Sends, sends
from parley.emulator.randomizer import Integers
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.pairwise import Pairwise
from parley.protocols.workloads.kernel import Kernel

# Kernels of one ordered column: neighbouring inputs stand for neighbouring values.
ORDERED = ("threshold", "lipschitz", "kernel")
MOST_BINS = 128
LARGEST_SIZE = 4096


@dataclass(frozen=True, kw_only=True)
class Quantise(Pairwise):
    """Few bins, randomized response, a debiased mean over pairs.

    Formal guarantee: eps-LDP. The only reply is one bin by q-ary randomized response.
    """

    name: ClassVar[str] = "quantise"
    summary: ClassVar[str] = "Baseline (Bell et al. 2020): round to few bins, randomized response, debiased pairs"

    bins: int
    # Whether what is estimated stays within the statistic's range; older records do not say so.
    cautious: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.workload.kind not in ORDERED:
            raise BadInput(f"quantise is for kernels of one ordered column, which {self.workload.name} is not")
        if self.inputs > LARGEST_SIZE:
            raise BadInput(f"{self.inputs} inputs are more than the limit of {LARGEST_SIZE}; use fewer levels")
        most = min(MOST_BINS, self.inputs)
        if not 2 <= self.bins <= most:
            raise BadInput(f"{self.bins} bins of {self.inputs} inputs: give from 2 to {most} bins")

    @cached_property
    def bin_of(self) -> Integers:
        return np.arange(self.inputs) * self.bins // self.inputs

    @cached_property
    def coarse(self) -> FrequencyGrr:
        """The same statistic of bins, by randomized response."""
        first = np.searchsorted(self.bin_of, np.arange(self.bins))
        last = np.append(first[1:], self.inputs) - 1
        middles = (first + last) // 2
        kernel = Kernel(self.workload.matrix()[np.ix_(middles, middles)], shift=self.workload.shift)
        return FrequencyGrr(workload=kernel, epsilon=self.epsilon, users=self.users)

    @sends
    def bin(self) -> Sends:
        """Each user sends its bin through randomized response."""
        return {"category": Send(self.coarse.oracle, self.bin_of)}

    script = (bin,)

    def analyst(self) -> Analyst:
        """The debiased mean over pairs, as Bell et al.'s estimator."""
        heard = yield Ask(self.bin)
        # The form of the bins' histogram is that of the inputs' but for the rounding.
        return self.finish(self.coarse.form(heard), heard)
