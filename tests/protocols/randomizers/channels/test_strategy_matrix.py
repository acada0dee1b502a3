"""Optimised tables: exactly private and unbiased, and as good as what is known to be best."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.protocols.randomizers.channels.channel import TABLE_BITS, exact_loss, response, subsets
from parley.protocols.randomizers.channels.decoding import LinearDecoding
from parley.protocols.randomizers.channels.folded_channel import check_determined
from parley.protocols.randomizers.channels.strategy_matrix import MOST_OUTPUTS, strategy_table
from parley.protocols.randomizers.exact import exponential_lower, guarded
from parley.protocols.tuned.embedding import embedding
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall

PROBLEMS: dict[str, Any] = {
    "kendall 3x3": Kendall(levels=(3, 3)),
    "auc 4": AreaUnderCurve(levels=4),
    "diversity 2": GiniDiversity(levels=2),
    "diversity 6": GiniDiversity(levels=6),
    "gmd 32": GiniMeanDifference(levels=32),
    "kendall 4x4": Kendall(levels=(4, 4)),
}


def cost(table: NDArray[np.int64], vectors: Any) -> float:
    """tr(B'H^-1 B)."""
    decoding = LinearDecoding(likelihood=table.T / float(table[0].sum()))
    return float(np.trace(vectors.T @ decoding.solve(vectors)))


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_tables_are_private_whole_and_determine_every_input(problem: str, epsilon: float) -> None:
    table = strategy_table(embedding(PROBLEMS[problem], 2.0), epsilon)
    assert table.shape[1] <= MOST_OUTPUTS
    assert (table.sum(axis=1) == 1 << TABLE_BITS).all()
    assert exact_loss(table) <= exponential_lower(guarded(epsilon))
    assert exact_loss(table) > Fraction(math.exp(0.999 * epsilon)), "epsilon is used"
    check_determined(table)
    chances, every = table * 2.0**-TABLE_BITS, np.eye(len(table))
    decoding = LinearDecoding(likelihood=chances.T)
    worth = (decoding.likelihood @ decoding.solve(every)) / decoding.mean[:, None]
    np.testing.assert_allclose(chances @ worth, every, atol=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_for_even_queries_it_is_as_good_as_the_best_subsets(epsilon: float) -> None:
    """All inputs alike: subset selection is optimal (Ye and Barg)."""
    vectors = np.eye(7) - 1 / 7
    known = min(cost(subsets(7, size, epsilon).weights, vectors) for size in range(1, 7))
    assert known * (1 - 1e-5) <= cost(strategy_table(vectors, epsilon), vectors) <= known * 1.003


@pytest.mark.parametrize("problem", PROBLEMS)
def test_it_is_never_worse_than_randomised_response(problem: str) -> None:
    vectors = embedding(PROBLEMS[problem], 2.0)
    for epsilon in (0.5, 3.0, 8.0):
        assert cost(strategy_table(vectors, epsilon), vectors) <= 1.005 * cost(
            response(len(vectors), epsilon).weights, vectors
        )


def test_pricing_comes_near_the_program_that_lists_all_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = embedding(GiniMeanDifference(levels=9), 2.0)
    module = "parley.protocols.randomizers.channels.strategy_matrix.MOST_LISTED"
    for epsilon in (0.5, 2.0):
        listed = cost(strategy_table(vectors, epsilon), vectors)
        with monkeypatch.context() as patched:
            patched.setattr(module, 4)
            assert cost(strategy_table(vectors, epsilon), vectors) <= 1.03 * listed


def test_the_same_question_gets_the_same_table() -> None:
    vectors = embedding(Kendall(levels=(4, 4)), 2.0)
    assert np.array_equal(strategy_table(vectors, 1.0), strategy_table(vectors, 1.0))


def test_what_asks_nothing_gets_a_table_that_tells_all_inputs_apart() -> None:
    table = strategy_table(np.zeros((5, 5)), 1.0)
    check_determined(table)
    assert cost(table, np.eye(5)) <= 1.003 * min(cost(subsets(5, size, 1.0).weights, np.eye(5)) for size in (1, 2))
