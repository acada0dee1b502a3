"""A protocol of one's own: every user sends one noisy vector, decided by a single coin between two hemispheres.

parley run --protocol-file docs/examples/own_protocol.py --protocol one-hemisphere ...
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.protocol import Broadcast, Estimate, Inputs, Interaction
from parley.emulator.randomizer import Floats, Shape
from parley.emulator.round import Round
from parley.emulator.tally import Tally
from parley.protocols.factorization.factors import factorize
from parley.protocols.factorization.model import SignedFactorization, signed
from parley.protocols.legacy_pairwise import Pairwise, common
from parley.protocols.legacy_rounds import ComposedRound, Part
from parley.protocols.randomizers.vectors.codebook import Codebook, hemisphere
from parley.protocols.workloads.workload import Workload


@dataclass(frozen=True, kw_only=True)
class OneHemisphere(Pairwise):
    """h'Wh = (Ah)'D(Ah): the square of the mean of all vectors, less the noise's own square.

    Formal guarantee: eps-LDP, from the hemisphere randomizer, which is used once.
    """

    name: ClassVar[str] = "one-hemisphere"
    summary: ClassVar[str] = "An example: one vector a user from the hemisphere randomizer"
    interaction: ClassVar[Interaction] = "non-interactive"

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        return cls(workload=workload, epsilon=epsilon, users=users)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        return cls(**common(parameters))

    @cached_property
    def factors(self) -> SignedFactorization:
        return signed(factorize(self.workload))

    @cached_property
    def vector(self) -> Codebook:
        budget = self.epsilon - self.side.epsilon
        return hemisphere(dimension=self.factors.rows, radius=self.factors.radius, epsilon=budget)

    @cached_property
    def only(self) -> "Only":
        return Only(self)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return (self.only,)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return (self.users,)

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Broadcast | Estimate:
        mean = self.only.mean(heard[0][1], "vector")
        noise = self.factors.signs.sum() * self.vector.variance / heard[0][1].replies
        return self.finish(self.factors.bilinear(mean, mean) - noise, heard)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        noise = self.vector.variance / replies[0]
        spread = self.factors.radius**2 if histogram is None else np.sum(self.factors.factor.apply(histogram) ** 2)
        return float(4 * noise * spread + 2 * self.factors.rows * noise**2)


class Only(ComposedRound):
    """Each user sends VRand(A 1_x)."""

    name = "send"

    def __init__(self, protocol: OneHemisphere) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def broadcast(self) -> Shape:
        return {}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="vector", randomizer=self.protocol.vector), *self.protocol.side.parts)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"vector": self.protocol.factors.factor.columns(inputs), **self.protocol.side.functions(inputs)}
