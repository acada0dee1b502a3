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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Claim, Heard, Send, Sends, sends
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.roles.mixing import Mixing
from parley.protocols.factorization.factors import Approximation, one_factor
from parley.protocols.factorization.model import SignedFactorization, signed
from parley.protocols.limits import check_setup
from parley.protocols.pairwise import Pairwise
from parley.protocols.randomizers.exact import check_count
from parley.protocols.randomizers.shuffled.shares import Shares, security_of, shares_needed
from parley.protocols.randomizers.shuffled.skellam import Skellam, delta_of_noise
from parley.protocols.shuffle.amplification import PROTECTS, check_delta, check_mixing
from parley.protocols.workloads.workload import Workload

Query = tuple[str, Floats]
# The column whose entries the shuffler mixes, each coordinate apart.
AXES = {"shares": 1}
# Of delta, so much goes to the shares; the rest is the noise's.
SHARES_PART = 0.1
FRACTIONS = range(4, 25)
LARGEST_WEIGHT = 1e6
# A frame holds 4096 replies and at most 64 MiB.
MOST_REPLY_BYTES = 15_000
# Sums stay in their room but for noise of more than so many deviations, which has a probability below 2^-128.
REACH = 14.0
# Numbers stay far below 2^63, so that they and their differences are what they are as int64, and exact as float64.
LARGEST_NUMBER = 2.0**52
# Pairs of more inputs than this are not listed; twice the largest norm bounds them.
MOST_LISTED = 1024


class Sensitivity(NamedTuple):
    """Delta_2^2 and Delta_1."""

    square: float
    absolute: float


@dataclass(frozen=True, kw_only=True)
class SplitAndMix(Pairwise):
    """One vector per user, split into shares that a shuffler mixes.

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

    # A and D of W - cJ = A'DA, where they do not follow from the statistic's name, or from that and the rows kept.
    factor: Floats | None = field(default=None, repr=False, compare=False)
    signs: Floats | None = field(default=None, repr=False, compare=False)
    rows: Integers | None = field(default=None, repr=False, compare=False)
    weight: float
    delta: float
    shuffle: Mixing
    fraction: int
    bits: int
    shares: int
    variance: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)
        check_mixing(self.shuffle, self.users, AXES)
        check_count("fraction", self.fraction, FRACTIONS[0], FRACTIONS[-1])
        if not 0 <= self.weight <= LARGEST_WEIGHT or (self.weight > 0) != (self.query is not None):
            raise BadInput(f"a side query of weight {self.weight} does not suit {self.workload.name}")
        size = self.dimension * self.shares * self.encoder.dtype.itemsize
        if size > MOST_REPLY_BYTES:
            raise BadInput(
                f"d m <= {MOST_REPLY_BYTES} bytes fails: {self.dimension} coordinates in {self.shares} shares "
                f"are {size} bytes per user; use fewer levels"
            )
        # Before any vector is computed.
        check_setup("the vectors of all inputs", self.inputs, self.dimension)
        needed, crowd = extent(self.numbers, self.users, self.variance), self.shuffle.crowd
        # The sum and its noise must fit between -Q/2 and Q/2.
        if needed >= 2 ** (self.bits - 1):
            raise BadInput(
                f"n max|A 1_x| + {REACH:g} deviations < Q/2 fails: {needed:.4g} >= 2^{self.bits - 1}; take a larger Q"
            )
        sigma = security_of(self.shares, self.bits, crowd)
        wanted = math.log2(self.dimension * (1 + math.exp(self.epsilon)) / (self.delta * SHARES_PART))
        if sigma < wanted:
            raise BadInput(
                f"m >= (2 sigma + log2 Q) / (log2 n - log2 e) + 2 fails: {self.shares} shares give sigma {sigma:.4g}, "
                f"needed are {wanted:.4g} for n = {crowd}, Q = 2^{self.bits}; take "
                f"{shares_needed(wanted, self.bits, crowd)} shares"
            )
        shown = self.delta_shown(crowd)
        if shown > self.delta:
            raise BadInput(
                f"delta_0 + (1 + e^eps)(d 2^-sigma + n d slack) <= delta fails: {shown:.3g} > {self.delta:g}; "
                "take more noise or more users"
            )

    @property
    def claim(self) -> Claim:
        protects, local = f"{PROTECTS}; from both together by nothing", math.inf
        return replace(super().claim, delta=self.delta, protects_from=protects, trusts="shuffler", local_epsilon=local)

    @cached_property
    def approximation(self) -> Approximation:
        """W~ = A'DA, and how far it is from W - cJ."""
        return one_factor(self.workload, self.factor, self.signs, self.rows)

    @cached_property
    def factors(self) -> SignedFactorization:
        """A and D."""
        return signed(self.approximation.factors)

    @cached_property
    def query(self) -> Query | None:
        return side_query(self.workload)

    @cached_property
    def numbers(self) -> Integers:
        """What a user with input x sends, in steps of 2^-fraction: a row of whole numbers for each x."""
        return grid(self.factors, self.query, self.weight, self.fraction)

    @property
    def scale(self) -> float:
        return 2.0**self.fraction

    @cached_property
    def D(self) -> Floats:
        """The diagonal of D, with 0 for the side query, which is no part of the form."""
        return np.concatenate([self.factors.signs, np.zeros(self.dimension - self.factors.rows)])

    @property
    def dimension(self) -> int:
        """d: the coordinates of a user's vector, and one for the side query."""
        return self.factors.rows + (self.query is not None)

    @cached_property
    def encoder(self) -> Shares:
        return Shares(dimension=self.dimension, shares=self.shares, bits=self.bits, noise=Skellam(self.variance))

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """How far apart two users' vectors can be; every party computes it."""
        return sensitivity(self.numbers)

    def delta_shown(self, replies: int) -> float:
        """The right side of the formal guarantee's inequality for so many users."""
        noise = delta_of_noise(self.epsilon, replies * self.variance, *self.sensitivity)
        sigma = security_of(self.shares, self.bits, replies)
        slips = math.exp2(-sigma) + replies * self.encoder.noise.slack
        return noise + (1 + math.exp(self.epsilon)) * self.encoder.dimension * slips

    @sends
    def shares_of_a_vector(self) -> Sends:
        """Each user sends m shares of each coordinate of A 1_x, with its noise."""
        return {"shares": Send(self.encoder, self.numbers)}

    script = (shares_of_a_vector,)

    def mean(self, one: Heard) -> Floats:
        """The mean of the users' vectors, with the noise."""
        return self.encoder.centred(one.sum("shares")).astype(np.float64) / (self.scale * one.replies)

    def mean_variance(self, replies: int) -> float:
        return self.variance / self.scale**2 / max(1, replies)

    def form(self, one: Heard) -> float:
        """(s'Ds - n v tr D) / n^2."""
        mean = self.mean(one)
        return float((mean * self.D) @ mean) - float(self.D.sum()) * self.mean_variance(one.replies)

    def analyst(self) -> Analyst:
        """One question, one sum."""
        one = yield Ask(self.shares_of_a_vector)
        return self.finish(self.form(one), one)


def side_query(workload: Workload) -> Query | None:
    """What the statistic needs besides the form: a named function of the input, at most one."""
    return next(iter(workload.linear_queries().items()), None)


def grid(factors: SignedFactorization, query: Query | None, weight: float, fraction: int) -> Integers:
    """The vectors of all inputs in steps of 2^-fraction, with the side query from -weight to weight below them."""
    columns = factors.factor.columns(np.arange(factors.inputs))
    if query is not None:
        values = query[1]
        label = 2 * (values - values.min()) / np.ptp(values) - 1
        columns = np.concatenate([columns, weight * label[:, None]], axis=1)
    largest = float(np.abs(columns).max())
    if not largest < math.ldexp(LARGEST_NUMBER, -fraction):
        raise BadInput(f"a vector with an entry of {largest:g} is too long for fixed point; rescale the statistic")
    return np.rint(columns * 2.0**fraction).astype(np.int64)


def extent(numbers: Integers, users: int, variance: float) -> float:
    """How far from 0 the sum of so many vectors can be, with noise of this variance from each."""
    return users * float(np.abs(numbers).max()) + REACH * math.sqrt(users * variance) + REACH**2


def sensitivity(vectors: Integers | Floats) -> Sensitivity:
    """The l2 and l1 diameters of the rows, in their units; never less than they are. Every user computes them."""
    values = vectors.astype(np.float64)
    if len(values) > MOST_LISTED:
        square = 4 * float((values**2).sum(axis=1).max())
        return Sensitivity(square * (1 + 1e-12), 2 * float(np.abs(values).sum(axis=1).max()))
    square = absolute = 0.0
    for row in range(len(values) - 1):
        apart = np.abs(values[row + 1 :] - values[row])
        square = max(square, float((apart**2).sum(axis=1).max()))
        absolute = max(absolute, float(apart.sum(axis=1).max()))
    return Sensitivity(square * (1 + 1e-12), absolute)
