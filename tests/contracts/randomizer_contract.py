"""What the tests of built-in randomizers share besides the contract that is installed (`parley.testing`)."""

import numpy as np

from parley.emulator.randomizer import Columns, Floats
from parley.launch.testkit.contract.laws import ALPHA, chi_square
from parley.launch.testkit.contract.randomizers import COMMON_BAD, RandomizerContract, random_coins, rows, within
from parley.protocols.planning.noise import noise_of
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.vectors.directional import Directional

__all__ = [
    "ALPHA",
    "COMMON_BAD",
    "RandomizerContract",
    "chi_square",
    "covariance_at",
    "random_coins",
    "rows",
    "unary_common",
    "within",
]


def covariance_at(randomizer: Directional, x: Floats) -> Floats:
    """The covariance of the decoded vector for the input x, as planning takes it."""
    noise = noise_of(randomizer)
    return np.asarray(noise.isotropic * np.eye(len(x)) + noise.radial * np.outer(x, x))


def unary_common(oracle: OptimisedUnaryEncoding, reply: Columns) -> Floats:
    """What the likelihoods of unary encoding leave out: every bit under the law of other bits."""
    ones = oracle.support(reply).sum(axis=1)
    return np.asarray(ones * np.log(oracle.other) + (oracle.categories - ones) * np.log1p(-oracle.other))
