"""What the tuned protocols share: a round of codebook replies, and what the analyst reads from their counts.

For few inputs an explicit table takes the place of the codebook: everything is as if it had one seed.

    N[fold, seed, index]    counts: one increment per reply
    b = r'N / n             scores, and h~ = H^-1 b, which is unbiased for the histogram h
    h^                      the histogram that explains b best; h^_-j the same without fold j
    t1 = sum_j (n_j / n) [theta(h^_-j) + <h~_j - h^_-j, grad theta(h^_-j)>]

h^_-j and h~_j are made of different users, so the mean of t1 misses theta(h) only by the second-order part of h^ - h.
"""

import gc
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Send, Vectors
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
# A table travels in the setup: at most 64 KiB of it.
MOST_TABLED, MOST_OUTPUTS = 32, 256
CODEBOOK = ("power", "seeds", "candidates", "top")


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

    `power` says where candidates put information (`embedding.py`); `salt` makes the public coins. Where
    inputs are few, a `strategy` may take the place of power, seeds, candidates and top: a table of whole numbers,
    inputs x outputs, which every user's node checks.
    """

    power: float | None = None
    seeds: int | None = None
    candidates: int | None = None
    top: int | None = None
    strategy: Integers | None = field(default=None, repr=False, compare=False)
    folds: int
    salt: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inputs > MOST_INPUTS:
            raise BadInput(
                f"{self.name} takes at most {MOST_INPUTS} inputs, got {self.inputs}; use fewer levels or a frequency "
                "protocol"
            )
        check_count("folds", self.folds, 2, MOST_FOLDS)
        check_count("salt", self.salt, 0, LARGEST_SALT)
        given = [name for name in CODEBOOK if getattr(self, name) is not None]
        if self.strategy is None and len(given) == len(CODEBOOK):
            self._check_codebook(**{name: getattr(self, name) for name in CODEBOOK})
        elif self.strategy is not None and not given:
            self._check_table(self.strategy)
        else:
            raise BadInput(
                f"{self.name} takes a table, or {', '.join(CODEBOOK)}; got {', '.join(given) or 'none of these'}"
                f"{'' if self.strategy is None else ' and a table'}"
            )

    def _check_table(self, table: Integers) -> None:
        from parley.protocols.randomizers.channels.folded_channel import check_determined

        check_count("the number of inputs of a table", self.inputs, 2, MOST_TABLED)
        if table.dtype != np.int64 or table.ndim != 2 or len(table) != self.inputs or table.shape[1] > MOST_OUTPUTS:
            raise BadInput(
                f"a table of {table.dtype} {table.shape} does not suit {self.inputs} inputs; give 64-bit whole "
                f"numbers, a row for each input and at most {MOST_OUTPUTS} outputs"
            )
        # Refuses ratios above e^epsilon and rows that do not add up.
        self.codebook  # noqa: B018
        check_determined(table)

    def _check_codebook(self, power: float, seeds: int, candidates: int, top: int) -> None:
        if power not in POWERS:
            raise BadInput(f"power is {power!r:.40}; give one of {', '.join(map(str, POWERS))}")
        if power != 2.0 and self.inputs > MOST_EIGENVALUES:
            raise BadInput(
                f"power {power:g} takes the eigenvalues of W, for at most {MOST_EIGENVALUES} inputs, got "
                f"{self.inputs}; take power 2"
            )
        check_count("seeds", seeds, 1, MOST_SEEDS)
        check_count("the number of counts, seeds times candidates,", seeds * candidates, 2, MOST_COUNTS)
        if seeds * (candidates - 1) < self.inputs - 1:
            raise BadInput(
                f"{seeds} seeds of {candidates} candidates do not determine the shares of {self.inputs} "
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
    def codebook(self) -> Any:
        """`CodebookSeeds`; or a `FoldedChannel`, which is one with a single seed."""
        return self._codebook(self.folds, self.sends_place)

    def _codebook(self, folds: int, sends_place: bool) -> Any:
        if self.strategy is not None:
            return _tabled(self.strategy.tobytes(), self.strategy.shape, epsilon=self.reply_epsilon, folds=folds)
        fields = {"seeds": self.seeds, "candidates": self.candidates, "top": self.top, "folds": folds}
        return _codebook(self.workload, self.power, epsilon=self.reply_epsilon, sends_place=sends_place, **fields)

    def places(self, users: Users) -> Columns:
        """The fold and seed of each user."""
        return {"place": places_of(users, self.salt, self.codebook.places).astype(np.uint16)}

    @property
    def index(self) -> Send:
        """One of a seed's candidates, likelier one that the input favours; or an output of the table."""
        every: Array | Vectors = np.arange(self.inputs)
        return Send(self.codebook, every, given=None if self.sends_place else self.places)

    @cached_property
    def objective(self) -> Any:
        from parley.protocols.tuned.objective import Objective

        return Objective(self.workload)

    @cached_property
    def decoder(self) -> Any:
        """The analyst's tables, which have no folds; no user's node makes them."""
        from parley.protocols.tuned.decoder import decoder_of

        return decoder_of(self._codebook(1, False))

    def read(self, counts: Integers) -> FirstRead:
        """h^ and t1 from counts of replies, fold by fold."""
        counts = counts.reshape(self.folds, -1)
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


@lru_cache(maxsize=8)
def _codebook(workload: Workload, power: float, **fields: Any) -> CodebookSeeds:
    """Protocols that differ in nothing but their shares and salts have the same tables."""
    vectors = embedding(workload, power)
    return CodebookSeeds(vectors=vectors, radius=float(np.linalg.norm(vectors, axis=1).max()), **fields)


@lru_cache(maxsize=8)
def _tabled(weights: bytes, shape: tuple[int, ...], **fields: Any) -> Any:
    """The channel of a table; a user's node that has none need not load it."""
    from parley.protocols.randomizers.channels.folded_channel import FoldedChannel

    return FoldedChannel(weights=np.frombuffer(weights, dtype=np.int64).reshape(shape), **fields)


def forget_tables() -> None:
    """Let go of the tables of drafts, 16 MiB for each codebook of 256 inputs. A protocol keeps its own."""
    from parley.protocols.tuned.decoder import decoder_of, single_of

    for kept in (decoder_of, single_of, _codebook):
        kept.cache_clear()
    # Drafts and their planning refer to each other.
    gc.collect()
