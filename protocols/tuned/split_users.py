"""Three rounds, tuned (mathematics.md, items 1-4): what the protocols that split users have in common.

With M = W - cJ = A'DA and B(u, v) = u'Dv: h'Mh = B(Ah, mu) + B(Ah, Ah - mu) for any mu. The first users send A e_x as
randomised vectors. They fall into folds; Y_j is the mean of a fold and mu_j the projection of the mean of the others,
so mu_j and Y_j are independent. Each of the last users sends one scalar g(x) = <A e_x, D (mu + Y)> with mu, Y averaged
over folds, and mean g - sum_j q_j B(Y_j, mu_j) is the estimate. Whatever was broadcast, g is a public function, so
each user finds its exact range over all k inputs itself: privacy needs nothing from the analyst.

Where users are split, no user meets itself: the mean over all splits is the U-statistic itself, for any diagonal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Estimate, Interaction, Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols.factorization.approximation import Approximation, exact, read_signed, signed_parameters, single
from parley.protocols.factorization.model import signed
from parley.protocols.factorization.shift import best_shift
from parley.protocols.legacy_pairwise import Pairwise, common, interval
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.limits import affordable, check_setup
from parley.protocols.parameters import count
from parley.protocols.planning import prediction
from parley.protocols.planning.guesses import public_guesses
from parley.protocols.tuned.crossfit import fit
from parley.protocols.tuned.encoding import ByCategory, ByVector, Encoding
from parley.protocols.tuned.groups import LARGEST_SALT, check_shares
from parley.protocols.tuned.ratio_form import Target
from parley.protocols.tuned.scalar_round import Scalars
from parley.protocols.tuned.vector_round import Vectors
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

# Twice the candidates are twice the users' work; they are worth it where they lower the variance by so much.
SIZES = (4, 8, 16, 32, 64)
WORTH = 1.03
LARGEST_SHIFTED = 256
MOST_FOLDS = 16
# What `design` tries for the share of the users that send vectors; the rest send scalars.
VECTOR_SHARES = (0.06, 0.1, 0.16, 0.25, 0.4, 0.6, 0.8)
FOLDS = 4
CHOSEN = ("encoding", "candidates", "best", "folds", "shares", "split", "salt")
SPLITS = ("users", "budget")
ENCODINGS = (ByVector.kind, ByCategory.kind)
LARGEST_CATEGORIES = 1024
# Simulated runs behind the choice of shares: the same noise for each, so that few suffice to compare them.
SKETCHES = 8

Split = TypeVar("Split", bound="Tuned")


@dataclass(frozen=True, kw_only=True)
class Tuned(Pairwise):
    """One or two rounds of vectors and one of scalars; users or the budget split among them.

    Formal guarantee: eps-LDP against any analyst. Split users speak once, with all of eps; with a split budget the
    rounds' epsilons add up to eps. Vectors go through a codebook; a scalar's range is computed by its user.
    """

    interaction: ClassVar[Interaction] = "sequentially interactive"
    vector_rounds: ClassVar[int]

    approximation: Approximation = field(repr=False)
    encoding: str = ByVector.kind
    candidates: int
    best: int
    folds: int
    shares: tuple[float, ...]
    split: str = "users"
    salt: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares, self.vector_rounds + 1)
        if self.split not in SPLITS or self.encoding not in ENCODINGS:
            raise BadInput(f"split {self.split!r:.40} should be one of {SPLITS}, encoding one of {ENCODINGS}")
        if not 0 <= self.salt <= LARGEST_SALT or self.folds % self.vector_rounds or not 2 <= self.folds <= MOST_FOLDS:
            raise BadInput(f"salt {self.salt} or folds {self.folds} cannot be used")
        if self.split == "budget":
            check_setup("the diagonal of A'DA", self.approximation.factors.rows, self.inputs)

    @classmethod
    def design(cls, workload: Workload, *, epsilon: float, users: int) -> Self:
        return cls.tailored(workload, epsilon=epsilon, users=users)

    @classmethod
    def tailored(cls, workload: Workload, *, epsilon: float, users: int, histogram: Floats | None = None) -> Self:
        """The shares with the smallest predicted error for a public guess of the histogram."""
        workload = shifted(workload)
        draft = cls(
            workload=workload,
            epsilon=epsilon,
            users=users,
            approximation=single(exact(workload)),
            candidates=2,
            best=1,
            folds=FOLDS,
            shares=cls.spread(0.5),
        ).with_codebook()
        guesses = [histogram] if histogram is not None else public_guesses(workload)
        kinds = ENCODINGS if workload.size <= LARGEST_CATEGORIES else (ByVector.kind,)
        return min((_best_share(replace(draft, encoding=kind), guesses) for kind in kinds), key=lambda found: found[0])[
            1
        ]

    def with_codebook(self) -> Self:
        """The fewest candidates whose variance is nearly that of the most, each with its best t."""
        encoding = self.encoding_of(0)
        assert isinstance(encoding, ByVector)
        plain = encoding.randomizer
        tried = [replace(plain, candidates=size, best=None) for size in affordable(SIZES, plain.ambient)]
        enough = next(each for each in tried if each.variance <= WORTH * tried[-1].variance)
        return replace(self, candidates=enough.candidates, best=enough.favoured)

    @classmethod
    def spread(cls, vectors: float) -> tuple[float, ...]:
        """Shares of the rounds when the vectors have this much together."""
        return (*(vectors / cls.vector_rounds for _ in range(cls.vector_rounds)), 1 - vectors)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        fields = common(parameters, *CHOSEN, optional=("factor", "signs"))
        candidates = count(parameters, "candidates", 2, SIZES[-1])
        shares = parameters["shares"]
        if not isinstance(shares, list | tuple) or not all(type(share) is float for share in shares):
            raise BadInput(f"protocol parameter shares should be a list of numbers, got {shares!r:.80}")
        if type(parameters["split"]) is not str or type(parameters["encoding"]) is not str:
            raise BadInput("protocol parameters split and encoding should be words")
        return cls(
            **fields,
            approximation=read_signed(fields["workload"], parameters),
            encoding=parameters["encoding"],
            candidates=candidates,
            best=count(parameters, "best", 1, candidates - 1),
            folds=count(parameters, "folds", 2, MOST_FOLDS),
            shares=tuple(shares),
            split=parameters["split"],
            salt=count(parameters, "salt", 0, LARGEST_SALT),
        )

    def parameters(self) -> Mapping[str, Any]:
        return {
            **super().parameters(),
            "encoding": self.encoding,
            "candidates": self.candidates,
            "best": self.best,
            "folds": self.folds,
            "shares": list(self.shares),
            "split": self.split,
            "salt": self.salt,
            **signed_parameters(self.approximation),
        }

    @cached_property
    def target(self) -> Target:
        return Target(workload=self.workload, form=signed(self.approximation.factors))

    def budget(self, group: int) -> float:
        """What a user spends when it speaks in this round."""
        return self.epsilon if self.split == "users" else self.epsilon * self.shares[group]

    def encoding_of(self, group: int) -> Encoding:
        """How the users of a group send where they stand."""
        return self._encodings[group]

    @cached_property
    def _encodings(self) -> tuple[Encoding, ...]:
        return tuple(self._encoding(self.budget(group)) for group in range(self.vector_rounds))

    def _encoding(self, epsilon: float) -> Encoding:
        if self.encoding == ByCategory.kind:
            return ByCategory(target=self.target, epsilon=epsilon)
        return ByVector(target=self.target, epsilon=epsilon, candidates=self.candidates, best=self.best)

    @cached_property
    def vectors(self) -> tuple[Vectors, ...]:
        return tuple(Vectors(self, group) for group in range(self.vector_rounds))

    @cached_property
    def scalars(self) -> Scalars:
        return Scalars(self)

    @property
    def rounds(self) -> tuple[Round, ...]:
        return *self.vectors, self.scalars

    @property
    def planned_replies(self) -> tuple[int, ...]:
        if self.split == "budget":
            return tuple(self.users for _ in self.shares)
        return tuple(max(1, round(share * self.users)) for share in self.shares)

    def conclude(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> Broadcast | Estimate:
        if len(heard) < self.vector_rounds:
            return {}
        if len(heard) == self.vector_rounds:
            return self.questions([heard])[0]
        public, tally = heard[-1]
        found = self.scalars.answer(public, tally)
        variance = found.variance + self._doubt(heard, found.slope) + self._dropout_variance(self._replies(heard))
        return interval(found.value, variance**0.5, {"form": found.form, "ratio": found.ratio})

    def questions(self, runs: Sequence[tuple[tuple[Broadcast, Tally], ...]]) -> list[Broadcast]:
        """What is asked after the vectors, for many runs at once: their projections share each pass over A."""
        folds = [
            [step.fold_means(tally) for step, (_, tally) in zip(self.vectors, heard, strict=True)] for heard in runs
        ]
        means = np.stack([np.concatenate([each for each, _ in run]) for run in folds])
        sizes = np.stack([np.concatenate([size for _, size in run]) for run in folds])
        return [self.scalars.question(found) for found in fit(self.encoding_of(0), means, sizes)]

    def _replies(self, heard: tuple[tuple[Broadcast, Tally], ...]) -> tuple[int, ...]:
        return tuple(max(1, tally.replies) for _, tally in heard)

    def _doubt(self, heard: tuple[tuple[Broadcast, Tally], ...], slope: float) -> float:
        """What B(Y - Ah, Ah - mu) adds: simulated for a public guess, for it depends on the data very little."""
        vectors = sum(self._replies(heard)[: self.vector_rounds])
        planned = sum(self.planned_replies[: self.vector_rounds])
        return self._usual_doubt * slope**2 * (planned / vectors) ** 2

    @cached_property
    def _usual_doubt(self) -> float:
        guess = public_guesses(self.workload)[0]
        return prediction.simulated(self, guess, self.planned_replies).doubt

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the statistic: scalar noise and sampling, and B(Y - Ah, Ah - mu)."""
        if histogram is None:
            return prediction.bounded(self, replies)
        return prediction.simulated(self, histogram, replies).total

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        return float(self.form_variance(self.planned_replies, histogram) ** 0.5)


def _best_share(draft: Split, guesses: list[Floats]) -> tuple[float, Split]:
    """The share of vectors with the smallest sketched error: from the middle downhill, for it has one valley."""

    @cache
    def sketched(place: int) -> float:
        tried = replace(draft, shares=draft.spread(VECTOR_SHARES[place]))
        return max(prediction.simulated(tried, guess, tried.planned_replies, SKETCHES).total for guess in guesses)

    place = len(VECTOR_SHARES) // 2
    while True:
        near = [each for each in (place - 1, place, place + 1) if 0 <= each < len(VECTOR_SHARES)]
        best = min(near, key=sketched)
        if best == place:
            return sketched(place), replace(draft, shares=draft.spread(VECTOR_SHARES[place]))
        place = best


def shifted(workload: Workload) -> Workload:
    """A kernel that came without a shift gets the one with the smallest gamma_2."""
    if not isinstance(workload, Kernel) or workload.shift or workload.size > LARGEST_SHIFTED:
        return workload
    return Kernel(workload.values, shift=best_shift(workload.values)[0])


def salted(protocol: Protocol, salt: int) -> Protocol:
    """The same protocol with other groups of users, if it has groups: whoever runs it draws a public salt."""
    return replace(protocol, salt=salt) if isinstance(protocol, Tuned) else protocol
