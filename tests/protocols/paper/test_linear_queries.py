"""The matrix mechanism under the contract, for queries of any shape and for the W of a statistic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Inputs, Protocol
from parley.protocols.factorization.factors import Approximation
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.families.paper import with_factors
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.linear import LinearQueries
from tests.contracts.protocol_contract import SIGMAS, ProtocolContract, estimate

PREFIXES = LinearQueries(np.tril(np.ones((5, 8)), 2))


class TestMatrixMechanism(ProtocolContract):
    """With unbiased answers, as older records have them and the two-round reduction asks for."""

    protocol = "linear-queries"

    def make(self) -> Protocol:
        made: Any = super().make()
        return replace(made, shrunk=None)

    def truth(self, protocol: Any, inputs: Inputs) -> float:
        return float(protocol.truth(inputs))


class TestMatrixMechanismOfRectangularQueries(TestMatrixMechanism):
    workload = PREFIXES

    @property
    def inputs(self) -> Inputs:
        return np.random.default_rng(5).binomial(7, 0.3, self.users).astype(np.int64)


def test_every_answer_is_unbiased_and_as_accurate_as_predicted() -> None:
    inputs = np.random.default_rng(5).binomial(7, 0.3, 1000).astype(np.int64)
    protocol = replace(MatrixMechanism.design(PREFIXES, epsilon=2.0, users=len(inputs)), shrunk=None)
    histogram = np.bincount(inputs, minlength=8) / len(inputs)
    runs = [estimate(protocol, inputs, key_from_seed(seed)).details["answers"] for seed in range(300)]
    errors = np.array(runs) - PREFIXES.exact(inputs)
    assert np.all(np.abs(errors.mean(axis=0)) <= SIGMAS * errors.std(axis=0) / np.sqrt(len(runs)))
    ratios = errors**2 / protocol.planning.answer_variances(len(inputs), histogram)
    assert np.all(np.abs(ratios.mean(axis=0) - 1) <= SIGMAS * ratios.std(axis=0) / np.sqrt(len(runs)))
    errors = protocol.planning.answer_errors(1000, histogram)
    assert errors.max() <= protocol.planning.mean_squared_error(1000)


def test_the_scalar_is_the_hardest_answer() -> None:
    protocol: Protocol = MatrixMechanism.design(Kendall(levels=(3, 4)), epsilon=1.0, users=50)
    found = estimate(protocol, np.arange(50) % 12, key_from_seed(0))
    assert len(found.details["answers"]) == 12
    assert found.value == found.details["answers"][found.details["query"]]


SIGNS = LinearQueries(np.sign(np.random.default_rng(1).standard_normal((16, 16))))


def errors_of(protocol: Any, inputs: Inputs, runs: int) -> np.ndarray:
    counts, generator = np.bincount(inputs, minlength=protocol.inputs), np.random.default_rng(8)
    found = [fast_simulation.play(protocol, counts, generator).details["answers"] for _ in range(runs)]
    return np.array(found) - protocol.workload.apply(counts / len(inputs))


@pytest.mark.parametrize("users", [4, 60, 1000, 30_000])
def test_few_users_never_cost_more_than_no_users(users: int) -> None:
    """All users alike are the worst case: every answer is at an end of its range, +-1, so answering 0 costs 1."""
    protocol = MatrixMechanism.design(SIGNS, epsilon=0.5, users=users)
    for inputs in (np.zeros(users, dtype=np.int64), np.arange(users) % 16):
        squares = errors_of(protocol, inputs, 400) ** 2
        spread = SIGMAS * squares.std(axis=0) / np.sqrt(len(squares))
        errors = protocol.planning.answer_errors(users)
        assert np.all(squares.mean(axis=0) <= errors + spread), f"{squares.mean(axis=0)} {errors} {spread}"
        assert np.all(errors < 1)
        unbiased = replace(protocol, shrunk=None).planning.answer_errors(users)
        assert np.all(errors < unbiased)


def test_answers_stay_within_their_queries() -> None:
    protocol = MatrixMechanism.design(PREFIXES, epsilon=2.0, users=200)
    errors = errors_of(protocol, np.zeros(200, dtype=np.int64), 50)
    answers = errors + PREFIXES.values[:, 0]
    assert answers.min() >= 0
    assert answers.max() <= 1


def test_a_query_that_asks_nothing_is_answered_exactly() -> None:
    queries = LinearQueries(np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 2.0]]))
    protocol = MatrixMechanism.design(queries, epsilon=1.0, users=50)
    assert not errors_of(protocol, np.arange(50) % 3, 5)[:, 0].any()


def test_a_cheaper_matrix_nearby_is_used_where_it_pays() -> None:
    """Lemma fac-vs-apx-fac: one strong pattern and weak signs. Few users are better off without the weak signs."""
    generator = np.random.default_rng(2)
    strong = np.sign(generator.standard_normal(24))
    queries = LinearQueries(np.outer(strong, strong) + 0.15 * np.sign(generator.standard_normal((24, 24))))
    protocol = MatrixMechanism.design(queries, epsilon=0.5, users=300)
    alpha = protocol.approximation.bias(None)
    assert 0 < alpha < 0.2
    own = Approximation(factors=fixed_point(queries.values), target=queries.values)
    whole = replace(with_factors(MatrixMechanism, queries, 0.5, 300, own), shrunk=True)
    errors = protocol.planning.answer_errors(300)
    assert errors.max() < 0.75 * whole.planning.mean_squared_error(300)
    for inputs in (np.zeros(300, dtype=np.int64), np.arange(300) % 24):
        squares = errors_of(protocol, inputs, 300) ** 2
        spread = SIGMAS * squares.std(axis=0) / np.sqrt(len(squares))
        assert np.all(squares.mean(axis=0) <= errors + spread), f"{squares.mean(axis=0)} {errors} {spread}"
    many = MatrixMechanism.design(queries, epsilon=0.5, users=100_000)
    assert many.approximation.bias(None) < 1e-9
