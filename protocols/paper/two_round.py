"""The two-round protocol of the overview ("Additional Interactive Algorithms"), the white-box form.

Round one: o^L = VRand(L 1_x) with eps/2; the analyst broadcasts the mean O^L. Round two: <O^L, R 1_x> + kappa with
eps/2; their mean is the estimate. Its error is kappa and <Z^L, Rh>, which is large because Rh is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Estimate, Inputs, Interaction
from parley.emulator.randomizer import Floats, Shape
from parley.emulator.tally import Tally
from parley.protocols.factorization.approximation import (
    Approximation,
    approximation_parameters,
    double,
    exact,
    read_approximation,
)
from parley.protocols.factorization.model import Factorization
from parley.protocols.factorization.operator import Factor
from parley.protocols.legacy_pairwise import Pairwise, common
from parley.protocols.legacy_rounds import ComposedRound, Part
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.parameters import count
from parley.protocols.planning.noise import noise_of
from parley.protocols.projection.simplex_projection import calmed, quick, simplex_weights
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.tuned.scalar_round import LARGEST, exact_range
from parley.protocols.workloads.workload import Workload

CANDIDATES = 16
RUNS = 200
SEED = 20


@dataclass(frozen=True, kw_only=True)
class TwoRound(Pairwise):
    """A vector, then an inner product with everybody's mean vector.

    Formal guarantee: eps-LDP against any analyst. Both replies are eps/2: a vector from a codebook, and a scalar with
    Laplace noise for its exact range over all inputs, which every user computes from the broadcast itself.
    """

    name: ClassVar[str] = "two-round"
    summary: ClassVar[str] = "The overview's white-box protocol: VRand(L 1_x), then <O^L, R 1_x> + kappa; eps/2 each"
    interaction: ClassVar[Interaction] = "fully interactive"

    approximation: Approximation = field(repr=False)
    best: int

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        approximation = double(exact(workload))
        draft = cls(workload=workload, epsilon=epsilon, users=users, approximation=approximation, best=1)
        return replace(draft, best=replace(draft.vector, best=None).favoured)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        fields = common(parameters, "best", optional=("left", "right"))
        approximation = read_approximation(fields["workload"], parameters)
        return cls(**fields, approximation=approximation, best=count(parameters, "best", 1, CANDIDATES - 1))

    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters(), "best": self.best, **approximation_parameters(self.approximation)}

    @property
    def half(self) -> float:
        """Half of what the form may spend."""
        return (self.epsilon - self.side.epsilon) / 2

    @property
    def factors(self) -> Factorization:
        return self.approximation.factors

    @cached_property
    def left(self) -> Factor:
        return quick(self.factors.left)

    @cached_property
    def right(self) -> Factor:
        return quick(self.factors.right)

    @cached_property
    def vector(self) -> Codebook:
        """VRand_{eps/2, C}."""
        return Codebook(
            dimension=self.factors.rows,
            radius=self.factors.left.radius,
            epsilon=self.half,
            candidates=CANDIDATES,
            best=self.best,
        )

    @cached_property
    def first(self) -> "First":
        return First(self)

    @cached_property
    def second(self) -> "Second":
        return Second(self)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.first, self.second

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return self.users, self.users

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Broadcast | Estimate:
        if len(heard) == 1:
            return {"mean": self.first.mean(heard[0][1], "left")}
        public, tally = heard[1]
        form = float(self.second.mean(tally, "inner", public))
        vectors = max(1, heard[0][1].replies)
        explained = simplex_weights(self.left, public["mean"][None])[:, 0]
        likely = calmed(self.left, explained, noise_of(self.vector).squared_length(public["mean"], vectors))
        kappa = self.second.scalar(public).variance / max(1, tally.replies)
        return self.finish(form, heard, kappa + self._first_variance(likely, vectors))

    def _first_variance(self, histogram: Floats, replies: int) -> float:
        """The variance of <Z^L, Rh>."""
        right = self.right.apply(histogram)
        return noise_of(self.vector).along(right, self.left.transpose_apply(right), histogram) / replies

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """kappa, whose range grows with Z^L, and <Z^L, Rh>."""
        unit = self.second.parts[0].randomizer.variance
        noise = noise_of(self.vector)
        if histogram is None:
            blur = self.factors.right.radius * np.sqrt(2 * self.vector.variance / replies[0] * np.log(2 * self.inputs))
            width = 2 * (self.workload.infinity_norm + abs(self.workload.shift)) + 2 * blur
            lost = (noise.isotropic + max(noise.lean, 0.0) * self.left.radius**2) * self.right.radius**2
            return float(unit * width**2 / replies[1] + lost / replies[0])
        return unit * self._squared_width(histogram, replies[0]) / replies[1] + self._first_variance(
            histogram, replies[0]
        )

    def _squared_width(self, histogram: Floats, replies: int) -> float:
        """E of the squared range of R'O^L, from simulated means of the first round; the seed is fixed."""
        noise, generator = noise_of(self.vector), np.random.default_rng(SEED)
        isotropic = np.sqrt(noise.isotropic) * generator.standard_normal((self.factors.rows, RUNS))
        lean = np.sqrt(max(noise.lean, 0.0) * histogram)[:, None] * generator.standard_normal((self.inputs, RUNS))
        mean = self.left.apply(histogram)[:, None] + (isotropic + self.left.apply(lean)) / np.sqrt(replies)
        return float(np.mean(np.ptp(self.right.transpose_apply(mean), axis=0) ** 2))


class _Step(ComposedRound):
    def __init__(self, protocol: TwoRound) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs


class First(_Step):
    """Each user sends VRand(L 1_x)."""

    name = "vectors"

    @property
    def broadcast(self) -> Shape:
        return {}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="left", randomizer=self.protocol.vector), *self.protocol.side.parts)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"left": self.protocol.factors.left.columns(inputs), **self.protocol.side.functions(inputs)}


class Second(_Step):
    """Each user sends <O^L, R 1_x> + kappa."""

    name = "inner products"

    @property
    def numbers(self) -> int:
        return 1

    @property
    def broadcast(self) -> Shape:
        return {"mean": (np.dtype(np.float64), (self.protocol.factors.rows,))}

    def _values(self, public: Broadcast) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.protocol.right.transpose_apply(public["mean"])

    def check_broadcast(self, public: Broadcast) -> None:
        """Any mean is private; only one whose inner products are no numbers cannot be answered."""
        values = self._values(public)
        if not np.isfinite(values).all() or np.abs(values).max() > LARGEST:
            raise RemoteProtocolError("round 2: O^L is too long for its inner products to be numbers")

    def scalar(self, public: Broadcast) -> GridLaplace:
        """kappa for the exact range of <O^L, R 1_x> over all x."""
        low, high = exact_range(self._values(public))
        return GridLaplace(low=low, high=high, epsilon=self.protocol.half)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="inner", randomizer=GridLaplace(low=0.0, high=1.0, epsilon=self.protocol.half)),)

    def parts_for(self, public: Broadcast) -> tuple[Part, ...]:
        return (Part(name="inner", randomizer=self.scalar(public)),)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"inner": self._values(public)[inputs]}
