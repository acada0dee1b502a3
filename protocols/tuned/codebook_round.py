"""What the tuned protocols share: a round of codebook replies, and what the analyst reads from their counts.

    N[fold, seed, index]    counts: one increment per reply
    b = r'N / n             scores, and h~ = H^-1 b, which is unbiased for the histogram h
    h^                      the histogram that explains b best; h^_-j the same without fold j
    t1 = sum_j (n_j / n) [theta(h^_-j) + <h~_j - h^_-j, grad theta(h^_-j)>]

h^_-j and h~_j are made of different users, so the mean of t1 misses theta(h) only by the second-order part of h^ - h.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Heard, Send, Vectors
from parley.emulator.randomizer import Array, Columns, Floats, Integers
from parley.emulator.wire.messages import Users
from parley.protocols.pairwise import Pairwise
from parley.protocols.randomizers.channels.codebook_seeds import MOST_FOLDS, MOST_SEEDS, CodebookSeeds
from parley.protocols.randomizers.exact import check_count
from parley.protocols.tuned.embedding import POWERS, embedding
from parley.protocols.tuned.groups import LARGEST_SALT, places_of
from parley.protocols.workloads.workload import Workload

# The analyst's tables grow with S M k and k^3; beyond this they take minutes.
MOST_INPUTS = 2048
MOST_COUNTS = 1 << 15
# Eigenvalues of larger matrices take a node too long; p = 2 needs none.
MOST_EIGENVALUES = 512


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstRead:
    """What the counts of a round say: h^, t1, and the points they belong to."""

    counts: Integers
    histogram: Floats
    estimate: float

    @property
    def users(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, kw_only=True)
class CodebookRound(Pairwise):
    """The parameters of a round in which users send one index each.

    `power` says where candidates put information (`embedding.py`); `salt` makes the public coins.
    """

    power: float
    seeds: int
    candidates: int
    top: int
    folds: int
    salt: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power not in POWERS:
            raise BadInput(f"power is {self.power!r:.40}; give one of {', '.join(map(str, POWERS))}")
        if self.inputs > MOST_INPUTS:
            raise BadInput(
                f"{self.name} takes at most {MOST_INPUTS} inputs, got {self.inputs}; use fewer levels or a frequency "
                "protocol"
            )
        if self.power != 2.0 and self.inputs > MOST_EIGENVALUES:
            raise BadInput(
                f"power {self.power:g} takes the eigenvalues of W, for at most {MOST_EIGENVALUES} inputs, got "
                f"{self.inputs}; take power 2"
            )
        check_count("seeds", self.seeds, 1, MOST_SEEDS)
        check_count("folds", self.folds, 2, MOST_FOLDS)
        check_count("salt", self.salt, 0, LARGEST_SALT)
        check_count("the number of counts, seeds times candidates,", self.seeds * self.candidates, 2, MOST_COUNTS)
        if self.seeds * (self.candidates - 1) < self.inputs - 1:
            raise BadInput(
                f"{self.seeds} seeds of {self.candidates} candidates do not determine the shares of {self.inputs} "
                "inputs; take more seeds"
            )

    @property
    def reply_epsilon(self) -> float:
        """What the index may spend."""
        return self.epsilon

    @property
    def sends_place(self) -> bool:
        """Whether users draw their seeds and send them, instead of taking those of the public coins."""
        return False

    @cached_property
    def codebook(self) -> CodebookSeeds:
        fields = {"seeds": self.seeds, "candidates": self.candidates, "top": self.top, "folds": self.folds}
        return _codebook(self.workload, self.power, epsilon=self.reply_epsilon, sends_place=self.sends_place, **fields)

    def places(self, users: Users) -> Columns:
        """The fold and seed of each user."""
        return {"place": places_of(users, self.salt, self.codebook.places).astype(np.uint16)}

    @property
    def index(self) -> Send:
        """One of a seed's candidates, likelier one that the input favours."""
        every: Array | Vectors = np.arange(self.inputs)
        return Send(self.codebook, every, given=None if self.sends_place else self.places)

    @cached_property
    def objective(self) -> Any:
        from parley.protocols.tuned.objective import Objective

        return Objective(self.workload)

    @cached_property
    def decoder(self) -> Any:
        """The analyst's tables; no user's node makes them."""
        from parley.protocols.tuned.decoder import decoder_of

        return decoder_of(self.codebook)

    def read(self, one: Heard) -> FirstRead:
        """h^ and t1 from the counts of a round."""
        counts = one.sum("candidate").reshape(self.folds, -1)
        folds = counts.T.astype(np.float64)
        whole = folds.sum(axis=1, keepdims=True)
        found = self.decoder.nearest(self.decoder.scores(np.concatenate([whole, whole - folds], axis=1)))
        unbiased = self.decoder.unbiased(self.decoder.scores(folds))
        sizes = folds.sum(axis=0)
        estimate = 0.0
        for share, own, others in zip(sizes / max(1.0, sizes.sum()), unbiased.T, found[:, 1:].T, strict=True):
            point = self.objective.at(others)
            estimate += float(share * (point.theta + (own - others) @ point.gradient)) if share else 0.0
        return FirstRead(counts=counts, histogram=found[:, 0], estimate=estimate)


@lru_cache(maxsize=4)
def _codebook(workload: Workload, power: float, **fields: Any) -> CodebookSeeds:
    """Protocols that differ in nothing but their shares and salts have the same tables."""
    vectors = embedding(workload, power)
    return CodebookSeeds(vectors=vectors, radius=float(np.linalg.norm(vectors, axis=1).max()), **fields)
