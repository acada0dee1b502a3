"""Three rounds, tuned (mathematics.md, items 1-4): what the protocols that split users have in common.

With M = W - cJ = A'DA and B(u, v) = u'Dv: h'Mh = B(Ah, mu) + B(Ah, Ah - mu) for any mu. The first users send A e_x as
randomised vectors. They fall into folds; Y_j is the mean of a fold and mu_j the projection of the mean of the others,
so mu_j and Y_j are independent. Each of the last users sends one scalar g(x) = <A e_x, D (mu + Y)> with mu, Y averaged
over folds, and mean g - sum_j q_j B(Y_j, mu_j) is the estimate. Whatever was broadcast, g is a public function, so
each user finds its exact range over all k inputs itself: privacy needs nothing from the analyst.

Where users are split, no user meets itself: the mean over all splits is the U-statistic itself, for any diagonal.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Heard, Protocol, Send, Sends, sends
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.wire.messages import Users
from parley.protocols.limits import check_setup
from parley.protocols.randomizers.exact import check_count, exact_range
from parley.protocols.randomizers.scalars.grid_laplace import LARGEST_EPSILON, GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.tuned.crossfit import Fit, crossfit
from parley.protocols.tuned.encoding import ByCategory, ByVector, Encoding, FoldSizes, FoldSums
from parley.protocols.tuned.groups import LARGEST_SALT, check_shares, groups_of
from parley.protocols.tuned.one_factor import OneFactor
from parley.protocols.tuned.ratio_form import Guess, RatioForm

MOST_CANDIDATES = 64
MOST_FOLDS = 16
SPLITS = ("users", "budget")
ENCODINGS = (ByVector.kind, ByCategory.kind)


@dataclass(frozen=True, kw_only=True)
class SplitUsers(OneFactor):
    """One or two rounds of vectors and one of scalars; users or the budget split among them.

    Formal guarantee: eps-LDP against any analyst. Split users speak once, with all of eps; with a split budget the
    rounds' epsilons add up to eps. Vectors go through a codebook; a scalar's range is computed by its user.
    """

    encoding: str = ByVector.kind
    candidates: int
    top: int
    folds: int
    shares: tuple[float, ...]
    split: str = "users"
    salt: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares, len(self.script))
        if self.split not in SPLITS or self.encoding not in ENCODINGS:
            raise BadInput(f"split {self.split!r:.40} should be one of {SPLITS}, encoding one of {ENCODINGS}")
        check_count("candidates", self.candidates, 2, MOST_CANDIDATES)
        check_count("top", self.top, 1, self.candidates - 1)
        check_count("folds", self.folds, 2, MOST_FOLDS)
        check_count("salt", self.salt, 0, LARGEST_SALT)
        if self.folds % self.vector_rounds:
            raise BadInput(f"{self.folds} folds cannot be shared out among {self.vector_rounds} rounds")
        if self.split == "budget":
            check_setup("the diagonal of A'DA", self.factors.rows, self.inputs)

    @property
    def groups(self) -> int:
        return len(self.shares) if self.split == "users" else 1

    def group_of(self, users: Users) -> Integers:
        return groups_of(users, self.salt, self.shares)

    def participates(self, number: int, group: int) -> bool:
        """Each group answers in one round; with a split budget everybody answers in each."""
        return self.split == "budget" or number == group + 1

    @property
    def vector_rounds(self) -> int:
        return len(self.script) - 1

    def budget(self, place: int) -> float:
        """What a user spends in the round at this place."""
        return self.epsilon if self.split == "users" else self.epsilon * self.shares[place]

    @cached_property
    def ratio_form(self) -> RatioForm:
        """What is measured: A'DA, and how the statistic follows from it."""
        return RatioForm(workload=self.workload, form=self.factors)

    @cached_property
    def encodings(self) -> tuple[Encoding, ...]:
        """How users say where they stand, for each round of vectors."""
        return tuple(self._encoding(self.budget(place)) for place in range(self.vector_rounds))

    def _encoding(self, epsilon: float) -> Encoding:
        if self.encoding == ByCategory.kind:
            return ByCategory(ratio_form=self.ratio_form, epsilon=epsilon)
        return ByVector(ratio_form=self.ratio_form, epsilon=epsilon, candidates=self.candidates, top=self.top)

    def vector(self, place: int) -> Send:
        """Where a user stands, in the round at this place. The analyst keeps one sum per fold."""
        encoding, folds = self.encodings[place], self.folds // self.vector_rounds
        sums, sizes = FoldSums(encoding.randomizer, folds), FoldSizes(folds)
        return Send(encoding.randomizer, encoding.value, tallies={"": sums, "sizes": sizes})

    @property
    def d(self) -> int:
        """The length of the vectors users encode."""
        return self.ratio_form.factor.rows

    @sends(direction="d", anchor=4)
    def scalars(self, direction: Floats, anchor: Floats) -> Sends:
        """Each user of the last group sends g(x) = <A 1_x, D (mu + Y)>, by one bit or with Laplace noise.

        Either is made for the exact range of g. `direction` is D (mu + Y). `anchor` (pivot, ratio, denominator,
        sampling) is what the analyst goes on with; users need only the ratio, and that where the budget is split.
        """
        g = self.products(direction, ratio=float(anchor[1]))
        return {"scalar": Send(self.scalar(*exact_range(g)), g)}

    def products(self, direction: Floats, ratio: float) -> Floats:
        """g(x) for all k inputs. Where everybody speaks in every round, pairs of a user with itself are taken out."""
        g = self.ratio_form.operator.T @ direction
        return g - self.ratio_form.diagonal(Guess(ratio=ratio)) / self.users if self.split == "budget" else g

    def scalar(self, low: float, high: float) -> OneBit | GridLaplace:
        """The better of the two over this range."""
        epsilon = self.budget(self.vector_rounds)
        return (OneBit if self.one_bit else GridLaplace)(low=low, high=high, epsilon=epsilon)

    @cached_property
    def one_bit(self) -> bool:
        """Whether one bit has less variance than Laplace noise at this epsilon; the range does not matter."""
        unit = {"low": 0.0, "high": 1.0, "epsilon": self.budget(self.vector_rounds)}
        return unit["epsilon"] > LARGEST_EPSILON or OneBit(**unit).variance <= GridLaplace(**unit).variance

    def fit(self, *heard: Heard) -> Fit:
        """mu_j and Y_j of all folds of all rounds of vectors."""
        sizes = [one.sum("vector.sizes") for one in heard]
        sums = [one.sum("vector") for one in heard]
        means = [encoding.mean(*each) for encoding, *each in zip(self.encodings, sums, sizes, strict=True)]
        return crossfit(self.encodings[0], np.concatenate(means)[None], np.concatenate(sizes))[0]

    def question(self, fit: Fit) -> dict[str, Floats]:
        """What is broadcast after the vectors."""
        values = self.ratio_form.operator.T @ fit.direction
        sampling = float(fit.histogram @ values**2 - (fit.histogram @ values) ** 2)
        anchor = [fit.pivot, fit.guess.ratio, fit.guess.denominator, max(0.0, sampling)]
        return {"direction": fit.direction, "anchor": np.array(anchor)}

    def form(self, last: Heard) -> float:
        """mean g - sum_j q_j B(Y_j, mu_j)."""
        return self.complete(float(last.mean("scalar")) - float(last.asked["anchor"][0]))

    def complete(self, form: float) -> float:
        """To the U-statistic's scale: only where the budget is split were there pairs i = i to be taken out."""
        return form * self.users / (self.users - 1) if self.split == "budget" else form


def salted(protocol: Protocol, salt: int) -> Protocol:
    """The same protocol with other groups of users, if it has groups: whoever runs it draws a public salt."""
    return replace(protocol, salt=salt) if isinstance(protocol, SplitUsers) else protocol
