"""Every structured factor is the matrix it stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import BadInput
from parley.protocols.factorization.closed_forms import (
    Helmert,
    PairedKronecker,
    Thresholds,
    TwistedFourier,
    sign_matrix,
)
from parley.protocols.factorization.operator import Dense, Factor, Reflected

GENERATOR = np.random.Generator(np.random.PCG64(1))
DENSE = Dense(GENERATOR.standard_normal((4, 6)))
FACTORS: dict[str, Factor] = {
    "dense": DENSE,
    "helmert": Helmert(5),
    "helmert, two inputs": Helmert(2),
    "reflected": Reflected(DENSE, np.array([1.0, -1.0, 1.0, -1.0])),
    "paired, dense": PairedKronecker(DENSE, Dense(GENERATOR.standard_normal((2, 3)))),
    "paired, nested": PairedKronecker(PairedKronecker(DENSE, Helmert(3)), Thresholds(np.array([0.5, 2.0]))),
    "paired": PairedKronecker(sign_matrix(5).left, sign_matrix(8).left),
    "thresholds": Thresholds(np.array([0.1, 0.7, 0.3, 2.0])),
    "fourier, even": TwistedFourier(6, np.array([1.0 + 2j, 0.5, 1j])),
    "fourier, odd": TwistedFourier(7, np.array([1.0 + 2j, 0.5, 1j]), -0.7),
}


@pytest.fixture(params=FACTORS, name="factor")
def _factor(request: pytest.FixtureRequest) -> Factor:
    return FACTORS[request.param]


def test_products_are_those_of_the_dense_matrix(factor: Factor) -> None:
    matrix = factor.dense()
    assert matrix.shape == factor.shape == (factor.rows, factor.inputs)
    generator = np.random.Generator(np.random.PCG64(2))
    histograms = generator.standard_normal((factor.inputs, 3))
    points = generator.standard_normal((factor.rows, 3))
    np.testing.assert_allclose(factor.apply(histograms), matrix @ histograms, atol=1e-12)
    np.testing.assert_allclose(factor.apply(histograms[:, 0]), matrix @ histograms[:, 0], atol=1e-12)
    np.testing.assert_allclose(factor.transpose_apply(points), matrix.T @ points, atol=1e-12)
    np.testing.assert_allclose(factor.transpose_apply(points[:, 0]), matrix.T @ points[:, 0], atol=1e-12)
    np.testing.assert_allclose(factor.norms(), np.linalg.norm(matrix, axis=0), atol=1e-12)
    assert factor.radius == np.max(factor.norms())


@pytest.mark.parametrize("name", FACTORS)
@given(data=st.data())
def test_a_column_does_not_depend_on_its_neighbours(name: str, data: st.DataObject) -> None:
    factor = FACTORS[name]
    inputs = np.array(data.draw(st.lists(st.integers(0, factor.inputs - 1), min_size=1, max_size=40)))
    whole = factor.columns(inputs)
    cut = data.draw(st.integers(0, len(inputs)))
    parts = np.concatenate([factor.columns(inputs[:cut]), factor.columns(inputs[cut:])])
    assert whole.dtype == np.float64
    assert whole.tobytes() == parts.tobytes()


def test_columns_refuses_inputs_outside_the_domain(factor: Factor) -> None:
    with pytest.raises(BadInput, match="should lie in"):
        factor.columns(np.array([0, factor.inputs]))
    with pytest.raises(BadInput, match="should lie in"):
        factor.columns(np.array([-1]))
    with pytest.raises(BadInput, match="whole numbers"):
        factor.columns(np.array([0.5]))


def test_products_refuse_wrong_lengths(factor: Factor) -> None:
    with pytest.raises(BadInput, match="rows"):
        factor.apply(np.ones(factor.inputs + 1))
    with pytest.raises(BadInput, match="rows"):
        factor.transpose_apply(np.ones((factor.rows + 1, 2)))
