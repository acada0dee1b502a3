"""The black-box reduction to linear queries (overview, "Black-Box Reduction to Linear Queries (Algorithm)").

Round one: any linear-queries protocol, with eps/2, gives answers z^ near W h; the analyst broadcasts them. Round two:
each user sends its own answer z^_x + kappa with eps/2; the mean is the estimate.

The paper leaves to the reader that an answer need not be bounded: |W h| <= |W|, so the analyst moves every answer into
[-|W|, |W|], which brings none of them farther from the truth, and a user refuses answers that lie outside.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Broadcast, Estimate, Inputs, Interaction
from parley.emulator.randomizer import Floats, Shape
from parley.emulator.tally import Tally
from parley.protocols.factorization.operator import Dense, Factor
from parley.protocols.legacy_pairwise import Pairwise, common
from parley.protocols.legacy_rounds import ComposedRound, Part
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.parameters import mapping
from parley.protocols.projection.simplex_projection import calmed, quick, simplex_weights
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.side_queries import SideQueries
from parley.protocols.workloads.workload import Workload

# Which protocols answer linear queries in one round and say how well.
ORACLES: Mapping[str, type[MatrixMechanism]] = {MatrixMechanism.name: MatrixMechanism}
RUNS = 200
SEED = 20
# A user's own product of two float64 vectors may differ from the analyst's by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class TwoRoundBlackBox(Pairwise):
    """Linear queries, then everybody's own answer.

    Formal guarantee: eps-LDP against any analyst. The oracle's reply is eps/2 by its own claim; the second is a scalar
    with Laplace noise for the range [-|W|, |W|], and a user refuses to answer when the broadcast leaves it.
    """

    name: ClassVar[str] = "two-round-black-box"
    summary: ClassVar[str] = "Any linear-queries protocol, then each user's own answer + kappa; eps/2 each"
    interaction: ClassVar[Interaction] = "fully interactive"

    oracle: MatrixMechanism = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.oracle.workload != self.workload:
            raise BadInput("the linear-queries protocol of the first round answers for another matrix")
        if not self.oracle.epsilon + self.half + self.side.epsilon <= self.epsilon * (1 + 1e-12):
            raise BadInput(f"the first round spends {self.oracle.epsilon}, more than its half of {self.epsilon}")

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int, oracle: str = MatrixMechanism.name) -> Self:
        if oracle not in ORACLES:
            raise BadInput(f"there is no linear-queries protocol {oracle!r:.40}; known are {', '.join(ORACLES)}")
        half = (epsilon - SideQueries(workload, epsilon).epsilon) / 2
        made = ORACLES[oracle].design(workload, epsilon=half, users=users)
        return cls(workload=workload, epsilon=epsilon, users=users, oracle=made)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        fields = common(parameters, "oracle", "queries")
        name = parameters["oracle"]
        if type(name) is not str or name not in ORACLES:
            raise BadInput(f"there is no linear-queries protocol {name!r:.40}; known are {', '.join(ORACLES)}")
        return cls(**fields, oracle=ORACLES[name].from_parameters(mapping(parameters, "queries")))

    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters(), "oracle": self.oracle.name, "queries": self.oracle.parameters()}

    @property
    def half(self) -> float:
        """What each round may spend on the form."""
        return (self.epsilon - self.side.epsilon) / 2

    @cached_property
    def norm(self) -> float:
        return self.workload.infinity_norm

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
            return {"answers": np.clip(self.oracle.answers(heard[0][1]), -self.norm, self.norm)}
        form = float(self.second.mean(heard[1][1], "own"))
        replies = tuple(max(1, tally.replies) for _, tally in heard)
        mean = self.oracle.step.mean(heard[0][1], "vector")
        explained = simplex_weights(self._matrix, heard[1][0]["answers"][None])[:, 0]
        likely = calmed(self._factors[1], explained, self.oracle.noise.squared_length(mean, replies[0]))
        return self.finish(form - self.workload.shift, heard, self.form_variance(replies, likely))

    @cached_property
    def _matrix(self) -> Factor:
        return Dense(self.workload.matrix())

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """kappa, and the answers' error: at most the oracle's mMSE, for a histogram the error after clipping."""
        kappa = self.second.scalar.variance / replies[1]
        if histogram is None:
            return kappa + self.oracle.mean_squared_error(replies[0])
        errors = np.clip(self._simulated(histogram, replies[0]), -self.norm, self.norm)
        return kappa + float(np.mean((histogram @ errors - self.workload.form(histogram)) ** 2))

    def _simulated(self, histogram: Floats, replies: int) -> Floats:
        """Answers of simulated first rounds, one a column: the mean of the vectors is normal; the seed is fixed."""
        left, right = self._factors
        noise, generator = self.oracle.noise, np.random.default_rng(SEED)
        isotropic = np.sqrt(noise.isotropic) * generator.standard_normal((right.rows, RUNS))
        lean = np.sqrt(max(noise.lean, 0.0) * histogram)[:, None] * generator.standard_normal((self.inputs, RUNS))
        blurred = (isotropic + right.apply(lean)) / np.sqrt(replies)
        return np.asarray(self.workload.apply(histogram)[:, None] + left.transpose_apply(blurred))

    @cached_property
    def _factors(self) -> tuple[Factor, Factor]:
        factors = self.oracle.approximation.factors
        return quick(factors.left), quick(factors.right)


class First(ComposedRound):
    """The oracle's own round, and what the statistic needs besides the form."""

    name = "linear queries"

    def __init__(self, protocol: TwoRoundBlackBox) -> None:
        self.protocol = protocol
        self.asked = protocol.oracle.step

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def broadcast(self) -> Shape:
        return self.asked.broadcast

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return *self.asked.parts, *self.protocol.side.parts

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {**self.asked.functions(public, inputs), **self.protocol.side.functions(inputs)}


class Second(ComposedRound):
    """Each user sends z^_x + kappa."""

    name = "own answers"

    def __init__(self, protocol: TwoRoundBlackBox) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def numbers(self) -> int:
        return 1

    @property
    def broadcast(self) -> Shape:
        return {"answers": (np.dtype(np.float64), (self.inputs,))}

    @cached_property
    def scalar(self) -> GridLaplace:
        return GridLaplace(low=-self.protocol.norm, high=self.protocol.norm, epsilon=self.protocol.half)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="own", randomizer=self.scalar),)

    def check_broadcast(self, public: Broadcast) -> None:
        """No histogram has an answer beyond |W|; the noise is made for that range."""
        widest = float(np.abs(public["answers"]).max())
        if not widest <= self.protocol.norm * (1 + ROUNDING):
            raise RemoteProtocolError(f"round 2: an answer reaches {widest:g}, beyond |W| = {self.protocol.norm:g}")

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"own": public["answers"][inputs]}
