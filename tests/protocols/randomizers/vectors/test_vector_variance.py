"""Sampled variance of every vector randomizer against its formula, over the whole range of eps and d."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.reference.blasiok import Blasiok
from benchmarks.reference.codebooks import best_codebook
from benchmarks.reference.privunit import PrivUnit
from parley.protocols.randomizers.vectors.codebook import Codebook
from tests.contracts.randomizer_contract import ALPHA, covariance_at, random_coins

# Two-sided, for a mean of many draws.
DEVIATIONS = float(norm.isf(ALPHA / 2))
# With one direction and its negative the codebook is the hemisphere randomizer.
MAKERS: tuple[Any, ...] = (best_codebook, partial(Codebook, candidates=2, top=1), Blasiok, PrivUnit)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("dimension", [2, 8, 64, 512])
@pytest.mark.parametrize("epsilon", [0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_sampled_variance_agrees_with_the_formula(make: Any, dimension: int, epsilon: float) -> None:
    randomizer = make(dimension=dimension, radius=2.0, epsilon=epsilon)
    draws = 20_000 if dimension <= 8 else 3_000
    x = np.zeros(dimension)
    x[:2] = (1.0, -1.5)
    reply = randomizer.sample(np.tile(x, (draws, 1)), random_coins(randomizer, draws, 83 + dimension))
    error = randomizer.decode(reply) - x
    squares = (error**2).sum(axis=1) / dimension
    exact = randomizer.moments.variance_at(float(np.linalg.norm(x)))
    deviation = (squares.mean() - exact) / (squares.std() / draws**0.5)
    assert abs(deviation) <= DEVIATIONS, (draws, squares.mean(), exact, deviation)
    along = error @ x / np.linalg.norm(x)
    deviation = along.mean() / (along.std() / draws**0.5)
    assert abs(deviation) <= DEVIATIONS, (draws, along.mean(), deviation)
    unit = x / np.linalg.norm(x)
    squares = along**2
    covariance = covariance_at(randomizer, x)
    deviation = (squares.mean() - unit @ covariance @ unit) / (squares.std() / draws**0.5)
    assert abs(deviation) <= DEVIATIONS, (draws, squares.mean(), deviation)
