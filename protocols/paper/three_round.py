"""Theorem alg-interactive-app, verbatim: three rounds, eps/4 four times, clipping at tau = 4|W|.

h'Wh = <Lh, Rh> = <Lh, mu> + <Lh, Rh - mu>: the first round finds mu near Rh, the second measures Lh and <Lh, mu>,
the third measures <Y, Rh - mu>, whose noise is small because Rh - mu is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Estimate, Inputs, Interaction, Round, Tally
from parley.emulator.randomizer import Floats, Shape
from parley.protocols.factorization.approximation import (
    Approximation,
    approximation_parameters,
    double,
    exact,
    read_approximation,
)
from parley.protocols.factorization.factors import infinity_norm
from parley.protocols.factorization.model import Factorization
from parley.protocols.factorization.operator import Factor
from parley.protocols.pairwise import Pairwise, common
from parley.protocols.parameters import count
from parley.protocols.planning.prediction import public_guesses
from parley.protocols.projection.l1_projection import project_l1, projection_error
from parley.protocols.projection.simplex_projection import quick
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.rounds import ComposedRound, Part
from parley.protocols.workloads.workload import Workload

# A broadcast mu is rounded to float64; the inequality a user checks must not fail for that.
ROUNDING = 1e-9
# Any point of R^Delta is private and leaves the estimate unbiased; this near to the nearest one is near enough.
TOLERANCE = 1e-6
CANDIDATES = 16
RUNS = 6
FEW = 2
SEED = 20


@dataclass(frozen=True, kw_only=True)
class ThreeRound(Pairwise):
    """The paper's interactive algorithm.

    Formal guarantee: eps-LDP against any analyst. The four replies are eps/4 each: two vectors from a codebook; a,
    whose range a user checks itself and refuses to answer if it is too wide; v, which is clipped.
    """

    name: ClassVar[str] = "three-round"
    summary: ClassVar[str] = "Theorem alg-interactive-app: project, correct, correct again; eps/4 four times"
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
        return cls(**fields, approximation=approximation, best=count(parameters, "best", 1, CANDIDATES // 2))

    def parameters(self) -> Mapping[str, Any]:
        return {**super().parameters(), "best": self.best, **approximation_parameters(self.approximation)}

    @property
    def part(self) -> float:
        """The paper's bar-epsilon: a quarter of what the form may spend."""
        return (self.epsilon - self.side.epsilon) / 4

    @property
    def factors(self) -> Factorization:
        return self.approximation.factors

    @cached_property
    def right(self) -> Factor:
        """R for the analyst, who multiplies by it often."""
        return quick(self.factors.right)

    @cached_property
    def norm(self) -> float:
        return infinity_norm(self.workload)

    @cached_property
    def tau(self) -> float:
        """Clipping bound of the third round."""
        return 4 * self.norm

    @cached_property
    def vector(self) -> Codebook:
        """VRand_{eps/4, C}."""
        return Codebook(
            dimension=self.factors.rows,
            radius=self.factors.radius,
            epsilon=self.part,
            candidates=CANDIDATES,
            best=self.best,
        )

    @cached_property
    def first(self) -> "First":
        return First(self)

    @cached_property
    def second(self) -> "Second":
        return Second(self)

    @cached_property
    def third(self) -> "Third":
        return Third(self)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return self.first, self.second, self.third

    @property
    def planned_replies(self) -> tuple[int, ...]:
        return self.users, self.users, self.users

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Broadcast | Estimate:
        if len(heard) == 1:
            # Theorem proj: the nearest point of R^Delta to the mean of the noisy vectors.
            mean = self.first.mean(heard[0][1], "right")
            return {"mu": project_l1(self.right, mean, tolerance=TOLERANCE).point}
        if len(heard) == 2:
            return {"mu": heard[1][0]["mu"], "mean": self.second.mean(heard[1][1], "left")}
        form = float(self.second.mean(heard[1][1], "inner") + self.third.mean(heard[2][1], "outer"))
        replies = tuple(max(1, tally.replies) for _, tally in heard)
        return self.finish(form, heard, self._variance(replies, self._usual_loss(replies[0])))

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the form: kappa, z, and <Z, Rh - mu>."""
        lost = self._worst_loss(replies[0]) if histogram is None else self._loss(histogram, replies[0])
        return self._variance(replies, lost)

    def _variance(self, replies: tuple[int, ...], lost: float) -> float:
        return (
            self.second.scalar.variance / replies[1]
            + self.third.scalar.variance / replies[2]
            + self.vector.variance / replies[1] * lost
        )

    def _worst_loss(self, replies: int) -> float:
        """Theorem proj's bound on E|Rh - mu|^2."""
        return projection_error(self.factors.right, self.vector.variance / replies)

    def _usual_loss(self, replies: int) -> float:
        """The same for a public guess of the histogram, on which it depends little; dropout as in the bound."""
        return self._guessed_loss * self._worst_loss(replies) / self._worst_loss(self.users)

    @cached_property
    def _guessed_loss(self) -> float:
        # Next to kappa and z the loss is small, and users wait for the analyst: a rough one will do.
        return self._loss(public_guesses(self.workload)[0], self.users, runs=FEW)

    def _loss(self, histogram: Floats, replies: int, runs: int = RUNS) -> float:
        """E|Rh - mu|^2 for this histogram, by a few projections of simulated means; the seed is fixed."""
        generator, centre = np.random.default_rng(SEED), self.right.apply(histogram)
        noise = np.sqrt(self.vector.variance / replies) * generator.standard_normal((runs, self.factors.rows))
        points = [project_l1(self.right, centre + each, tolerance=TOLERANCE).point for each in noise]
        return float(np.mean([np.sum((point - centre) ** 2) for point in points]))


class _Step(ComposedRound):
    def __init__(self, protocol: ThreeRound) -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def _vector_shape(self) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
        return np.dtype(np.float64), (self.protocol.factors.rows,)


class First(_Step):
    """Each user sends VRand(R 1_x)."""

    name = "project"

    @property
    def broadcast(self) -> Shape:
        return {}

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="right", randomizer=self.protocol.vector), *self.protocol.side.parts)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"right": self.protocol.factors.right.columns(inputs), **self.protocol.side.functions(inputs)}


class Second(_Step):
    """Each user sends VRand(L 1_x) and a = <L 1_x, mu> + kappa."""

    name = "correct"

    @property
    def broadcast(self) -> Shape:
        return {"mu": self._vector_shape}

    @cached_property
    def scalar(self) -> GridLaplace:
        norm = self.protocol.norm
        return GridLaplace(low=-norm, high=norm, epsilon=self.protocol.part)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (
            Part(name="left", randomizer=self.protocol.vector),
            Part(name="inner", randomizer=self.scalar),
        )

    def admit(self, public: Broadcast) -> None:
        """mu in R^Delta implies |<L 1_x, mu>| <= |W| for every x; the inequality is what privacy and accuracy need."""
        widest = float(np.abs(self.protocol.factors.left.transpose_apply(public["mu"])).max())
        if not widest <= self.protocol.norm * (1 + ROUNDING):
            raise RemoteProtocolError(
                f"round 2: <L 1_x, mu> reaches {widest:g}, beyond |W| = {self.protocol.norm:g}: mu is not in R^Delta"
            )

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        inner = self.protocol.factors.left.transpose_apply(public["mu"])
        return {"left": self.protocol.factors.left.columns(inputs), "inner": inner[inputs]}


class Third(_Step):
    """Each user sends v = clip_tau(<Y, R 1_x - mu>) + z."""

    name = "correct again"

    @property
    def numbers(self) -> int:
        return 1

    @property
    def broadcast(self) -> Shape:
        return {"mu": self._vector_shape, "mean": self._vector_shape}

    @cached_property
    def scalar(self) -> GridLaplace:
        return GridLaplace(low=-self.protocol.tau, high=self.protocol.tau, epsilon=self.protocol.part)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="outer", randomizer=self.scalar),)

    def _values(self, public: Broadcast) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            inner: Floats = self.protocol.factors.right.transpose_apply(public["mean"])
            return inner - float(public["mean"] @ public["mu"])

    def admit(self, public: Broadcast) -> None:
        """Any Y and mu are private, for the value is clipped; but for every x it must be a number that can be."""
        if not np.isfinite(self._values(public)).all():
            raise RemoteProtocolError("round 3: Y and mu are too long for <Y, R 1_x - mu> to be a number")

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"outer": self._values(public)[inputs]}
