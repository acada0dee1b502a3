"""The round in which users send one scalar over its exact public range (mathematics.md, "tuned", items 2 and 3)."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Floats, Shape
from parley.emulator.tally import Tally
from parley.emulator.wire.messages import Users
from parley.protocols.legacy_rounds import ComposedRound, Part
from parley.protocols.randomizers.scalars.grid_laplace import LARGEST_EPSILON, GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.tuned.crossfit import Fit
from parley.protocols.tuned.groups import members
from parley.protocols.tuned.ratio_form import Guess

if TYPE_CHECKING:
    from parley.protocols.tuned.split_users import Tuned

LARGEST = 1e100


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the last round says: the statistic, the form, and the variance of the statistic by scalars and sampling."""

    value: float
    form: float
    variance: float
    slope: float
    ratio: float


def exact_range(values: Floats) -> tuple[float, float]:
    """The least and the greatest of a public function's k values, apart even where it is constant."""
    low, high = float(values.min()), float(values.max())
    pad = 1e-8 * max(abs(low), abs(high), 1e-100)
    return (low, high) if high - low > pad else (low - pad, high + pad)


class Scalars(ComposedRound):
    """Each user of the last group sends g(x) = <A 1_x, D (mu + Y)>, by one bit or grid Laplace, whichever is better.

    The broadcast's `direction` is D (mu + Y). Its `anchor` (pivot, ratio, denominator, sampling) is what the analyst
    goes on with; users need no more of it than the ratio, and that only where the budget is split.
    """

    name = "scalars"

    def __init__(self, protocol: "Tuned") -> None:
        self.protocol = protocol

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def numbers(self) -> int:
        return 1

    @property
    def broadcast(self) -> Shape:
        rows = self.protocol.target.factor.rows
        return {"direction": (np.dtype(np.float64), (rows,)), "anchor": (np.dtype(np.float64), (4,))}

    @property
    def _group(self) -> int:
        return len(self.protocol.shares) - 1

    def participates(self, users: Users) -> NDArray[np.bool_]:
        if self.protocol.split == "budget":
            return super().participates(users)
        return members(users, self.protocol.salt, self.protocol.shares, self._group)

    @cached_property
    def one_bit(self) -> bool:
        """Whether one bit has less variance than Laplace noise at this epsilon; the range does not matter."""
        epsilon = self.protocol.budget(self._group)
        if epsilon > LARGEST_EPSILON:
            return True
        return OneBit(low=0.0, high=1.0, epsilon=epsilon).variance <= self._laplace(0.0, 1.0).variance

    def _laplace(self, low: float, high: float) -> GridLaplace:
        return GridLaplace(low=low, high=high, epsilon=self.protocol.budget(self._group))

    def randomizer(self, low: float, high: float) -> OneBit | GridLaplace:
        """The better of the two over this range."""
        if self.one_bit:
            return OneBit(low=low, high=high, epsilon=self.protocol.budget(self._group))
        return self._laplace(low, high)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="scalar", randomizer=self.randomizer(0.0, 1.0)),)

    def parts_for(self, public: Broadcast) -> tuple[Part, ...]:
        return (Part(name="scalar", randomizer=self.randomizer(*exact_range(self.values(public)))),)

    def check_broadcast(self, public: Broadcast) -> None:
        """Any direction is private; only one whose inner products are no numbers cannot be answered."""
        values = self.values(public)
        if not np.isfinite(values).all() or np.abs(values).max() > LARGEST:
            raise RemoteProtocolError("the last round's direction is too long for its inner products to be numbers")

    def values(self, public: Broadcast) -> Floats:
        """g(x) for all k inputs. Where everybody speaks in every round, pairs of a user with itself are taken out."""
        target = self.protocol.target
        with np.errstate(over="ignore", invalid="ignore"):
            values = target.operator.transpose_apply(public["direction"])
            if self.protocol.split == "budget":
                values = values - target.diagonal(Guess(ratio=float(public["anchor"][1]))) / self.protocol.users
        return values

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"scalar": self.values(public)[inputs]}

    def question(self, fit: Fit) -> Broadcast:
        """What the analyst broadcasts after the vectors."""
        values = self.protocol.target.operator.transpose_apply(fit.direction)
        sampling = float(fit.histogram @ values**2 - (fit.histogram @ values) ** 2)
        anchor = [fit.pivot, fit.guess.ratio, fit.guess.denominator, max(0.0, sampling)]
        return {"direction": fit.direction, "anchor": np.array(anchor)}

    def answer(self, public: Broadcast, tally: Tally) -> Answer:
        """The statistic and what scalars and sampling do to it, from the broadcast and the replies alone."""
        pivot, ratio, denominator, sampling = (float(number) for number in public["anchor"])
        guess = Guess(ratio=ratio, denominator=denominator)
        randomizer = self.parts_for(public)[0].randomizer
        replies = max(1, tally.replies)
        mean = float(tally.sums["scalar"]) * randomizer.unit / replies + randomizer.offset
        form = self.complete(mean - pivot)
        slope = 1 / denominator
        noise = max(randomizer.variance - (mean - randomizer.offset) ** 2 if self.one_bit else randomizer.variance, 0.0)
        # The one-bit randomizer's total variance already holds the sampling; Laplace's does not.
        drawn = -replies / self.protocol.users if self.one_bit else 1 - replies / self.protocol.users
        variance = max(noise + sampling * drawn, 0.5 * noise)
        return Answer(
            value=self.protocol.target.value(form, guess),
            form=form,
            variance=variance / replies * slope**2,
            slope=slope,
            ratio=ratio,
        )

    def complete(self, form: float) -> float:
        """To the U-statistic's scale: only where the budget is split were there pairs i = i to be taken out."""
        users = self.protocol.users
        return form * users / (users - 1) if self.protocol.split == "budget" else form
