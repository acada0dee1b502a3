"""What is chosen for protocols behind a shuffler, all from public numbers, and how far off their estimates will be."""

import math
from functools import cached_property
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Heard
from parley.emulator.randomizer import Floats
from parley.emulator.roles.mixing import Mixing
from parley.protocols.factorization.factors import Approximation, exact, one_factor_fields, shifted, single
from parley.protocols.factorization.model import signed
from parley.protocols.factorization.truncation import truncated
from parley.protocols.planning.families.first_channels import codebook_for
from parley.protocols.planning.families.non_interactive import NonInteractivePlanning
from parley.protocols.planning.families.tuned import OneRoundTunedPlanning
from parley.protocols.randomizers.shuffled.shares import shares_needed
from parley.protocols.randomizers.shuffled.skellam import least_variance
from parley.protocols.shuffle import split_and_mix
from parley.protocols.shuffle.amplification import check_delta, check_mixing, largest_local_epsilon
from parley.protocols.shuffle.shuffled import Shuffled
from parley.protocols.shuffle.split_and_mix import AXES, FRACTIONS, SHARES_PART, SplitAndMix
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.workloads.workload import Workload

DEFAULT_DELTA = 1e-6
FIRST_SIZE = 64
# Fixed point is fine enough when rounding moves the form by at most this part of the noise.
FINE = 0.2
WEIGHTS = np.geomspace(0.02, 2.0, 21)
MIDDLE = 12


class ShuffledPlanning(OneRoundTunedPlanning):
    """Its error is that of one round with the local epsilon."""

    @classmethod
    def design(
        cls,
        kind: type[OneRoundTuned],
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        delta: float = DEFAULT_DELTA,
        crowd: int | None = None,
        **more: Any,
    ) -> Shuffled:
        """The largest local epsilon there is a proof for, and the codebook that suits it."""
        assert issubclass(kind, Shuffled)
        mixing = Mixing(crowd=users if crowd is None else crowd)
        check_mixing(mixing, users, {})
        # The codebook that suits a local epsilon, then the local epsilon that this codebook allows.
        codebook = codebook_for(largest_local_epsilon(FIRST_SIZE, 1, mixing.crowd, epsilon, delta))
        local = largest_local_epsilon(codebook["candidates"], codebook["top"], mixing.crowd, epsilon, delta)
        fields = {"delta": delta, "local_epsilon": local, "shuffle": mixing, **codebook, **more}
        made = super().design(kind, workload, epsilon=epsilon, users=users, **fields)
        assert isinstance(made, Shuffled)
        return made


class SplitAndMixPlanning(NonInteractivePlanning[SplitAndMix]):
    """4 v|Ah|^2 + 2 l v^2 with v the noise of a coordinate of the mean, and the bias of W~."""

    @classmethod
    def design(
        cls,
        kind: type[SplitAndMix],
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        delta: float = DEFAULT_DELTA,
        crowd: int | None = None,
    ) -> SplitAndMix:
        """The factors with the least predicted error: all rows of A, or those that are worth their noise."""
        mixing = Mixing(crowd=users if crowd is None else crowd, axes=AXES)
        check_mixing(mixing, users, AXES)
        check_delta(delta)
        query = split_and_mix.side_query(workload)

        def made(approximation: Approximation, weight: float, fraction: int) -> SplitAndMix:
            """On this grid: the least noise, the smallest Q and the fewest shares that (eps, delta) allows."""
            numbers = split_and_mix.grid(signed(approximation.factors), query, weight, fraction)
            apart = split_and_mix.sensitivity(numbers)
            variance = least_variance(epsilon, delta * (1 - 1.1 * SHARES_PART), *apart) / mixing.crowd
            bits = math.ceil(math.log2(split_and_mix.extent(numbers, users, variance) + 1)) + 1
            secure = math.log2(numbers.shape[1] * (1 + math.exp(epsilon)) / (delta * SHARES_PART))
            return kind(
                workload=workload,
                epsilon=epsilon,
                users=users,
                **one_factor_fields(approximation),
                weight=weight,
                delta=delta,
                shuffle=mixing,
                fraction=fraction,
                bits=bits,
                shares=shares_needed(secure + 1e-9, bits, mixing.crowd),
                variance=variance,
            )

        def best(approximation: Approximation) -> SplitAndMix:
            """The best weight on a middling grid, then the coarsest grid that is fine enough."""
            weight = 0.0
            if query is not None:
                radius, even = signed(approximation.factors).radius, np.full(workload.size, 1 / workload.size)
                guess = next(iter(workload.guesses().values()), even)
                weights = [round(radius * share * 2.0**MIDDLE) / 2.0**MIDDLE for share in WEIGHTS]
                weight = min(weights, key=lambda each: made(approximation, each, MIDDLE).predicted_rmse(guess))
            drafts = (made(approximation, weight, fraction) for fraction in FRACTIONS)
            return next(draft for draft in drafts if draft.fraction == FRACTIONS[-1] or cls(draft).is_fine)

        whole = single(exact(workload))
        factors = signed(whole.factors)
        spread = split_and_mix.sensitivity(factors.factor.columns(np.arange(workload.size)))
        if not spread.square > 0:
            raise BadInput(f"all inputs of this {workload.name} have the same vector: nothing has to be asked")
        noise = least_variance(epsilon, delta, *spread) / factors.radius**2 / mixing.crowd
        drafts = [best(each) for each in (whole, *truncated(workload, whole, noise, users))]
        return min(drafts, key=lambda draft: draft.predicted_rmse())

    @property
    def is_fine(self) -> bool:
        """Whether rounding adds little to the bias that the factors have anyway, compared with the noise."""
        protocol, factors = self.protocol, self.protocol.factors
        vectors = factors.factor.columns(np.arange(protocol.inputs))
        rounded = protocol.numbers[:, : factors.rows] / protocol.scale
        moved = (rounded * factors.signs) @ rounded.T - (vectors * factors.signs) @ vectors.T
        noise = self._noise_variance(protocol.users, factors.radius**2)
        return float(np.abs(moved).max()) <= FINE * math.sqrt(noise)

    @cached_property
    def error(self) -> Floats:
        """W~ - (W - cJ): what rounding and left-out rows do to the form."""
        vectors = self.protocol.numbers / self.protocol.scale
        return np.asarray((vectors * self.protocol.D) @ vectors.T - shifted(self.protocol.workload))

    def side_means(self, first: Heard) -> dict[str, float]:
        if self.protocol.query is None:
            return {}
        name, values = self.protocol.query
        low, high = float(values.min()), float(values.max())
        share = (float(self.protocol.mean(first)[-1]) / self.protocol.weight + 1) / 2
        return {name: low + (high - low) * share}

    def side_variances(self, replies: int) -> dict[str, float]:
        if self.protocol.query is None:
            return {}
        name, values = self.protocol.query
        return {name: (float(np.ptp(values)) / 2 / self.protocol.weight) ** 2 * self.protocol.mean_variance(replies)}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        protocol, factors = self.protocol, self.protocol.factors
        if histogram is None:
            bias, energy = float(np.abs(self.error).max()), factors.radius**2
        else:
            image = histogram @ protocol.numbers[:, : factors.rows] / protocol.scale
            bias, energy = float(histogram @ self.error @ histogram), float(image @ image)
        return bias**2 + self._noise_variance(replies[0], energy)

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The same with |Ah|^2 as the mean shows it, and the bias as if it were uniform within its bounds."""
        (only,) = heard
        factors = self.protocol.factors
        mean = self.protocol.mean(only)[: factors.rows]
        noise = factors.rows * self.protocol.mean_variance(only.replies)
        energy = float(np.clip(mean @ mean - noise, 0.0, factors.radius**2))
        bias = float(np.abs(self.error).max()) / math.sqrt(3)
        return bias**2 + self._noise_variance(only.replies, energy)

    def _noise_variance(self, replies: int, energy: float) -> float:
        """What the noise alone does to the form, for |Ah|^2 = energy."""
        noise = self.protocol.mean_variance(replies)
        return 4 * noise * energy + 2 * self.protocol.factors.rows * noise**2
