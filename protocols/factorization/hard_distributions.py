"""Data on which one round is hard: Lemmas "hard-dist-original" and "hard-dist-easy", from the dual witness of gamma_2.

A dual witness is a matrix G with gamma_2*(G) <= 1 and <G, W> = gamma_2(W). Row v of it weighs inputs for and against
the query v: mu_v is drawn by its positive entries, lambda_v by its negative ones, and pi(v) is the row's share of
|G|_1. The answers (W mu_v)_v and (W lambda_v)_v lie far apart, while G's small norm keeps every randomizer's replies to
the two alike in the mean over pi. The easy lemma mixes mu_v with lambda_v until transcripts cannot tell them apart.

Theorem "lb-red" makes a form of the query v: half of the users hold v, the others are drawn from mu_v or lambda_v.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.factorization.factors import shifted
from parley.protocols.factorization.fixed_point import bracket
from parley.protocols.factorization.shift import with_best_shift
from parley.protocols.factorization.zeta import polar_certificate
from parley.protocols.workloads.workload import Workload

# The witness takes tens of spectra of a k x k matrix.
LARGEST = 256
TOLERANCE = 1e-2
KEPT = 4


@dataclass(frozen=True, kw_only=True, eq=False)
class HardDistributions:
    """pi over queries, and for each query v the histograms mu_v (for) and lambda_v (against) in row v."""

    witness: Floats
    queries: Floats
    above: Floats
    below: Floats

    @property
    def hardest(self) -> int:
        """The query that pi likes best."""
        return int(np.argmax(self.queries))

    def histogram(self, query: int, mixture: float) -> Floats:
        """Half of the users hold v; of the others a share `mixture` is drawn from mu_v, the rest from lambda_v."""
        if not 0 <= mixture <= 1:
            raise BadInput(f"the mixture is {mixture}; give a share from 0 to 1")
        drawn = mixture * self.above[query] + (1 - mixture) * self.below[query]
        return np.asarray((drawn + np.eye(len(drawn))[query]) / 2)


@lru_cache(maxsize=KEPT)
def hard_distributions(workload: Workload) -> HardDistributions:
    """From the witness of gamma_2(W - cJ) for the free shift c."""
    if workload.size > LARGEST:
        raise BadInput(f"hard data are made for at most {LARGEST} inputs, not for {workload.size}; use fewer levels")
    if np.ptp(workload.bounds) == 0:
        raise BadInput(f"{workload.name} is constant, so no data are hard for it")
    target = shifted(with_best_shift(workload))
    used = np.flatnonzero(target.any(axis=1))
    found = bracket(target[np.ix_(used, used)], TOLERANCE)
    proof = polar_certificate(target[np.ix_(used, used)], found.below.rows, found.below.columns)
    witness = np.zeros_like(target)
    witness[np.ix_(used, used)] = proof.matrix / proof.norm
    above, below = np.maximum(witness, 0.0), np.maximum(-witness, 0.0)
    masses = above.sum(axis=1), below.sum(axis=1)
    # A row without weights on one side tells no two histograms apart.
    queries = np.where(np.minimum(*masses) > 0, masses[0] + masses[1], 0.0)
    if not queries.any():
        raise BadInput(f"the dual witness of {workload.name} has rows of one sign only; no pair of histograms follows")
    even = np.full_like(target, 1 / len(target))
    return HardDistributions(
        witness=witness,
        queries=queries / queries.sum(),
        above=np.divide(above, masses[0][:, None], out=even.copy(), where=masses[0][:, None] > 0),
        below=np.divide(below, masses[1][:, None], out=even.copy(), where=masses[1][:, None] > 0),
    )
