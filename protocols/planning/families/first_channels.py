"""What the first replies of the tuned protocols may go through: codebooks and, for few inputs, tables.

Every function makes drafts of a protocol, one for each channel. Which of them is best is for their planning to predict.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Integers
from parley.protocols.randomizers.channels.channel import response
from parley.protocols.randomizers.channels.strategy_matrix import LARGEST_EPSILON, strategy_table
from parley.protocols.tuned.codebook_round import MOST_EIGENVALUES, MOST_TABLED, CodebookRound
from parley.protocols.tuned.embedding import POWERS, embedding
from parley.protocols.workloads.workload import Workload

Tuned = TypeVar("Tuned", bound=CodebookRound)
# Up to this epsilon, so many candidates and so many of them favoured. Predicted for Kendall, AUC and GMD at n = 1e4,
# neighbouring choices are within 5% up to eps 2 and 10% at eps 4; 16 candidates at eps 9 cost 1.4 to 2.2 times the
# error of 256.
CODEBOOKS = ((0.7, 16, 6), (1.3, 16, 5), (2.5, 16, 3), (3.5, 32, 3), (5.0, 64, 3), (7.0, 256, 2), (math.inf, 256, 1))
SEEDS = 512
# S M counts are enough: more candidates need fewer seeds.
COUNTS = 1 << 14
# Tables are made for |W - cJ|^(p/2) with these p. Predicted for eight problems with 8 to 32 inputs and epsilon .5 to 4,
# the one for p = 1 is at most 1% better than randomised response and these.
STRATEGIES = (1.5, 2.0, 3.0)


def codebook_for(epsilon: float) -> dict[str, int]:
    """Seeds, candidates and favoured candidates for an epsilon."""
    candidates, top = next((many, few) for largest, many, few in CODEBOOKS if epsilon <= largest)
    return {"seeds": min(SEEDS, COUNTS // candidates), "candidates": candidates, "top": top}


def powers_for(workload: Workload) -> Sequence[float]:
    """With many inputs the tables of one power take seconds, and p = 2 needs no eigenvalues."""
    return POWERS if workload.size <= MOST_EIGENVALUES else (2.0,)


def codebooks(kind: type[Tuned], workload: Workload, epsilon: float, **fields: Any) -> list[Tuned]:
    """A draft for each power."""
    fields = {**codebook_for(epsilon), **fields, "workload": workload, "epsilon": epsilon}
    return decodable([kind(power=power, **fields) for power in powers_for(workload)])


def tabled(kind: type[Tuned], workload: Workload, epsilon: float, **fields: Any) -> list[Tuned]:
    """A draft for each table that may beat a codebook; none where there are many inputs."""
    if workload.size > MOST_TABLED:
        return []
    drafts = [kind(workload=workload, epsilon=epsilon, strategy=each, **fields) for each in _tables(workload, epsilon)]
    with suppress(BadInput):
        return decodable(drafts)
    return []


@lru_cache(maxsize=4)
def _tables(workload: Workload, epsilon: float) -> list[Integers]:
    """Randomised response, and the best strategy for each power that has one."""
    found = [response(workload.size, epsilon).weights]
    if epsilon > LARGEST_EPSILON:
        return found
    for power in STRATEGIES:
        with suppress(BadInput):
            found.append(strategy_table(embedding(workload, power), epsilon))
    return found


def decodable(drafts: Sequence[Tuned]) -> list[Tuned]:
    """Those whose replies determine the histogram; with many inputs and a large epsilon some powers favour too few."""
    found, reason = [], None
    for draft in drafts:
        try:
            draft.decoder.inverse  # noqa: B018
            found.append(draft)
        except BadInput as error:
            reason = error
    if reason is not None and not found:
        raise reason
    return found
