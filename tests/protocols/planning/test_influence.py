"""How far one reply moves an estimate: against formulas, and against the analyst who hears the crafted reply."""

import math

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.influence import influence
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.registry import design
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.kendall import Kendall

WORKLOAD, USERS = Kendall(levels=(3, 3)), 5000


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_randomized_response_stretches_by_its_known_factor(epsilon: float) -> None:
    """A reply counts (e^eps + k - 1) / (e^eps - 1) times: p - q is the inverse of that."""
    protocol = design("frequency-grr", WORKLOAD, epsilon=epsilon, users=USERS)
    factor = (math.exp(epsilon) + WORKLOAD.size - 1) / (math.exp(epsilon) - 1)
    assert influence(protocol, USERS).ratio == pytest.approx(factor, rel=1e-6)


@pytest.mark.parametrize(
    "name", ["one-round", "two-round", "three-round", "one-round-tuned", "two-round-tuned", "frequency-subset"]
)
def test_a_crafted_reply_does_at_least_what_a_lie_does(name: str) -> None:
    found = influence(design(name, WORKLOAD, epsilon=1.0, users=USERS), USERS)
    assert found.crafted >= found.lie > 0
    more = influence(design(name, WORKLOAD, epsilon=1.0, users=10 * USERS), 10 * USERS)
    assert more.crafted == pytest.approx(found.crafted / 10, rel=0.3), "it falls like 1/n"


def test_the_tuned_round_is_moved_as_far_as_is_said() -> None:
    """The two replies that reach furthest, exchanged in a real tally: the analyst's estimate moves by the influence."""
    protocol = design("one-round-tuned", WORKLOAD, epsilon=1.0, users=USERS)
    histogram = next(iter(assumed_histograms(WORKLOAD).values()))
    counts = np.diff(np.rint(np.cumsum(histogram) * USERS), prepend=0.0).astype(np.int64)
    heard = fast_simulation.tally(protocol.rounds[0], {}, counts, np.random.default_rng(1))
    decoder, gradient = protocol.decoder, protocol.objective.at(histogram).gradient
    carried = (decoder.inverse @ (decoder.likelihood.T / decoder.even)).T @ gradient
    crowd = 50

    def estimate(reply: int) -> float:
        sums = heard.sums["candidate"].copy()
        # A crowd of replies in every fold, so that noise in the histogram does not drown a single one.
        sums.reshape(protocol.folds, -1)[:, reply] += crowd // protocol.folds
        analysis = Analysis(protocol)
        said = analysis.hear(analysis.open(), type(heard)(int(sums.sum()), {"candidate": sums}))
        return float(said.value)

    moved = estimate(int(carried.argmax())) - estimate(int(carried.argmin()))
    each = influence(protocol, USERS).crafted * (crowd // protocol.folds) * protocol.folds
    assert moved == pytest.approx(each, rel=0.3)


def test_what_nobody_worked_out_is_refused() -> None:
    with pytest.raises(BadInput, match="nobody has worked out how far a reply of LevelledSelection reaches"):
        influence(design("hierarchical", AreaUnderCurve(levels=4), epsilon=1.0, users=USERS), USERS)
