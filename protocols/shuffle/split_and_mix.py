"""Split-and-mix: vector summation in the shuffle model, the paper's remark to its letter.

The non-interactive algorithm needs nothing but s = sum_i A 1_{x_i}. Users write A 1_x in fixed point, add a little
noise, split each coordinate into m shares mod Q, and the shuffler mixes the shares of each coordinate. The analyst adds
them up: it learns s with the noise of a central curator, and nothing else. From s, with N the noise of s and D = diag
(signs), E s'Ds = n^2 h'W~h + tr(D) Var N, so

    h'W~h  is estimated by  (s'Ds - n v tr D) / n^2,     v the variance one user adds.

W~ = A~'DA~ is the form of the vectors as they are rounded: public, so its distance from W - cJ is measured. Pairs
i = i are part of h'Wh; what the statistic takes off for them is its diagonal, constant or one more coordinate.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Claim, Inputs
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, Shape
from parley.emulator.roles.mixing import Mixing
from parley.emulator.tally import Tally
from parley.protocols.factorization.approximation import Approximation, read_signed, signed_parameters
from parley.protocols.factorization.model import SignedFactorization, signed
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.limits import check_setup
from parley.protocols.non_interactive import NonInteractive
from parley.protocols.parameters import count, number
from parley.protocols.randomizers.shuffled.shares import MOST_BITS, MOST_SHARES, Shares, security_of, shares_needed
from parley.protocols.randomizers.shuffled.skellam import MOST_VARIANCE, delta_of_noise
from parley.protocols.shuffle.amplification import check_delta
from parley.protocols.shuffle.crowd import DEFAULT_DELTA, PROTECTS, check_crowd, read_crowd
from parley.protocols.shuffle.fixed_point_form import REACH, Query, extent, form_error, grid, side_query
from parley.protocols.shuffle.sensitivity import Sensitivity, sensitivity
from parley.protocols.workloads.workload import Workload

COLUMN = "shares"
AXES = {COLUMN: 1}
# Of delta, so much goes to the shares; the rest is the noise's.
SHARES_PART = 0.1
FRACTIONS = range(4, 25)
LARGEST_WEIGHT = 1e6
# A frame holds 4096 replies and at most 64 MiB.
MOST_REPLY_BYTES = 15_000


@dataclass(frozen=True, kw_only=True)
class SplitAndMix(NonInteractive):
    """One vector a user, split into shares that a shuffler mixes.

    Formal guarantee: if the shuffler mixes the shares of at least `crowd` honest users and keeps the order to itself,
    the transcript is (eps, delta)-DP. Proof. Let M(x) be what is seen and S(x) the noisy sum. (1) By split-and-mix M(x)
    is within d 2^-sigma of a random function of S(x) alone (`shares.py`). (2) S(x) is the sum of whole vectors, any two
    of which differ by at most Delta_2 and Delta_1, and of d independent Skellam variables of variance crowd * v at
    least, up to crowd * d * slack: it is (eps, delta_0)-DP with delta_0 = `delta_of_noise` (`skellam.py`). (3) So
    P[M(x) in E] <= e^eps P[M(x') in E] + delta_0 + (1 + e^eps)(d 2^-sigma + crowd d slack), and every party that builds
    the protocol computes Delta_2, Delta_1 and the right side itself and refuses if it is above delta.
    Without a shuffler that keeps the order to itself nothing is left: a user's own noise is far too small.
    """

    name: ClassVar[str] = "split-and-mix"
    summary: ClassVar[str] = "Vector summation through a shuffler: shares mod Q, noise as if there were a curator"
    needs_shuffler: ClassVar[bool] = True

    approximation: Approximation = field(repr=False)
    weight: float
    delta: float
    crowd: int
    fraction: int
    bits: int
    shares: int
    variance: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)
        check_crowd(self.crowd, self.users)
        if (self.weight > 0) != (self.query is not None):
            raise BadInput(f"a side query of weight {self.weight} does not suit {self.workload.name}")
        self._check_frame()
        self._check_modulus()
        self._check_delta()

    @classmethod
    def design(
        cls,
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        delta: float = DEFAULT_DELTA,
        crowd: int | None = None,
    ) -> Self:
        """Rows, grid, Q, m and noise as `split_planning.py` chooses them."""
        # The planner makes protocols of this class, so it is loaded when it is needed.
        from parley.protocols.planning.split_planning import Problem, best_plan

        least = check_crowd(users if crowd is None else crowd, users)
        check_delta(delta)
        return best_plan(cls, Problem(workload=workload, epsilon=epsilon, users=users, delta=delta, crowd=least))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        own = ("weight", "delta", "shuffle", "fraction", "bits", "shares", "variance")
        fields = common(parameters, *own, optional=("factor", "signs", "rows"))
        return cls(
            **fields,
            approximation=read_signed(fields["workload"], parameters),
            weight=number(parameters, "weight", 0.0, LARGEST_WEIGHT),
            delta=number(parameters, "delta", 0.0, 1.0),
            crowd=read_crowd(parameters, fields["users"], AXES),
            fraction=count(parameters, "fraction", FRACTIONS[0], FRACTIONS[-1]),
            bits=count(parameters, "bits", 1, MOST_BITS),
            shares=count(parameters, "shares", 2, MOST_SHARES),
            variance=number(parameters, "variance", 0.0, MOST_VARIANCE),
        )

    def parameters(self) -> Mapping[str, Any]:
        return {
            **super().parameters(),
            "weight": self.weight,
            "delta": self.delta,
            "shuffle": Mixing(crowd=self.crowd, axes=AXES).parameters(),
            "fraction": self.fraction,
            "bits": self.bits,
            "shares": self.shares,
            "variance": self.variance,
            **signed_parameters(self.approximation),
        }

    @property
    def claim(self) -> Claim:
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            rounds=1,
            interaction=self.interaction,
            protects_from=f"{PROTECTS}; from both together by nothing",
            trusts="shuffler",
            local_epsilon=math.inf,
        )

    @cached_property
    def factors(self) -> SignedFactorization:
        """A and D."""
        return signed(self.approximation.factors)

    @cached_property
    def query(self) -> Query | None:
        """What the statistic needs besides the form."""
        return side_query(self.workload)

    @cached_property
    def numbers(self) -> Integers:
        """What a user with input x sends, in steps of 2^-fraction: a row of whole numbers for each x."""
        return grid(self.factors, self.query, self.weight, self.fraction)

    @property
    def scale(self) -> float:
        return 2.0**self.fraction

    @cached_property
    def signs(self) -> Floats:
        """The diagonal of D, with 0 for the side query, which is no part of the form."""
        return np.concatenate([self.factors.signs, np.zeros(self.numbers.shape[1] - self.factors.rows)])

    @cached_property
    def encoder(self) -> Shares:
        """Noise and shares."""
        return Shares(dimension=self.dimension, shares=self.shares, bits=self.bits, variance=self.variance)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How far apart two users' vectors can be; every party computes it."""
        return sensitivity(self.numbers)

    @cached_property
    def error(self) -> Floats:
        """W~ - (W - cJ): what rounding and left-out rows do to the form."""
        return form_error(self.workload, self.numbers, self.signs, self.scale)

    @cached_property
    def step(self) -> "Split":
        return Split(self)

    @property
    def dimension(self) -> int:
        """d: the coordinates of a user's vector, and one for the side query."""
        return self.factors.rows + (self.query is not None)

    def _check_frame(self) -> None:
        """Before any vector is computed."""
        size = self.dimension * self.shares * self.encoder.dtype.itemsize
        if size > MOST_REPLY_BYTES:
            raise BadInput(
                f"d m <= {MOST_REPLY_BYTES} bytes fails: {self.dimension} coordinates in {self.shares} shares "
                f"are {size} bytes a user; use fewer levels"
            )
        check_setup("the vectors of all inputs", self.inputs, self.dimension)

    def _check_modulus(self) -> None:
        """The sum and its noise must fit between -Q/2 and Q/2."""
        needed = extent(self.numbers, self.users, self.variance)
        if needed >= 2 ** (self.bits - 1):
            raise BadInput(
                f"n max|A 1_x| + {REACH:g} deviations < Q/2 fails: {needed:.4g} >= 2^{self.bits - 1}; take a larger Q"
            )

    def _check_delta(self) -> None:
        """The inequality of the formal guarantee."""
        sigma = security_of(self.shares, self.bits, self.crowd)
        wanted = math.log2(self.dimension * (1 + math.exp(self.epsilon)) / (self.delta * SHARES_PART))
        if sigma < wanted:
            raise BadInput(
                f"m >= (2 sigma + log2 Q) / (log2 n - log2 e) + 2 fails: {self.shares} shares give sigma {sigma:.4g}, "
                f"needed are {wanted:.4g} for n = {self.crowd}, Q = 2^{self.bits}; take "
                f"{shares_needed(wanted, self.bits, self.crowd)} shares"
            )
        shown = self.delta_shown(self.crowd)
        if shown > self.delta:
            raise BadInput(
                f"delta_0 + (1 + e^eps)(d 2^-sigma + n d slack) <= delta fails: {shown:.3g} > {self.delta:g}; "
                "take more noise or more users"
            )

    def delta_shown(self, replies: int) -> float:
        """The right side of the formal guarantee's inequality for so many users."""
        noise = delta_of_noise(self.epsilon, replies * self.variance, *self.sensitivity)
        sigma = security_of(self.shares, self.bits, replies)
        slips = math.exp2(-sigma) + replies * self.encoder.noise.slack
        return noise + (1 + math.exp(self.epsilon)) * self.encoder.dimension * slips

    def mean(self, tally: Tally) -> Floats:
        """The mean of the users' vectors, with the noise."""
        centred = self.encoder.centred(tally.sums["total"])
        return centred.astype(np.float64) / (self.scale * max(1, tally.replies))

    def mean_variance(self, replies: int) -> float:
        """The noise of each coordinate of the mean."""
        return self.variance / self.scale**2 / max(1, replies)

    def form(self, tally: Tally) -> float:
        mean = self.mean(tally)
        return float((mean * self.signs) @ mean) - float(self.signs.sum()) * self.mean_variance(tally.replies)

    def means(self, tally: Tally) -> dict[str, float]:
        if self.query is None:
            return {}
        name, values = self.query
        low, high = float(values.min()), float(values.max())
        return {name: low + (high - low) * (float(self.mean(tally)[-1]) / self.weight + 1) / 2}

    def mean_variances(self, replies: int) -> dict[str, float]:
        if self.query is None:
            return {}
        name, values = self.query
        return {name: (float(np.ptp(values)) / 2 / self.weight) ** 2 * self.mean_variance(replies)}

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """4 v|Ah|^2 + 2 l v^2 with v the noise of a coordinate of the mean, and the bias of W~."""
        if histogram is None:
            return self._variance(replies[0], self.factors.radius**2, float(np.abs(self.error).max()))
        image = histogram @ self.numbers[:, : self.factors.rows] / self.scale
        return self._variance(replies[0], float(image @ image), float(histogram @ self.error @ histogram))

    def seen_variance(self, tally: Tally) -> float:
        """The same with |Ah|^2 as the mean shows it, and the bias as if it were uniform within its bounds."""
        mean = self.mean(tally)[: self.factors.rows]
        noise = self.factors.rows * self.mean_variance(tally.replies)
        energy = float(np.clip(mean @ mean - noise, 0.0, self.factors.radius**2))
        return self._variance(tally.replies, energy, float(np.abs(self.error).max()) / math.sqrt(3))

    def _variance(self, replies: int, energy: float, bias: float) -> float:
        return bias**2 + self.noise_variance(replies, energy)

    def noise_variance(self, replies: int, energy: float) -> float:
        """What the noise alone does to the form, for |Ah|^2 = energy."""
        noise = self.mean_variance(replies)
        return 4 * noise * energy + 2 * self.factors.rows * noise**2


class Split(Round):
    """Each user sends m shares of each coordinate of A 1_x, with its noise."""

    name = "shares of a vector"

    def __init__(self, protocol: SplitAndMix) -> None:
        self.protocol = protocol

    @property
    def broadcast(self) -> Shape:
        return {}

    @cached_property
    def reply(self) -> Shape:
        encoder = self.protocol.encoder
        return {COLUMN: (encoder.dtype, (encoder.dimension, encoder.shares))}

    @property
    def coins(self) -> int:
        return self.protocol.encoder.coins

    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins) -> Columns:
        return {COLUMN: self.protocol.encoder.sample(self.protocol.numbers[inputs], coins)}

    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        return self.protocol.encoder.check(replies[COLUMN])

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        """Of one user's shares as it sends them; once mixed, a row is no user's any more."""
        return self.protocol.encoder.log_likelihood(replies[COLUMN], self.protocol.numbers)

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        return Tally(len(replies[COLUMN]), {"total": self.protocol.encoder.total(replies[COLUMN])})
