"""Scalars as integers: an input's place in its declared range, in whole steps."""

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.protocols.randomizers.exact import Words

PLACES = 1 << 32


def clip(inputs: Floats, low: float, high: float) -> Floats:
    """Values outside the range become its ends; NaN is refused."""
    if inputs.ndim != 1:
        raise BadInput(f"inputs have shape {inputs.shape}; give one number a user")
    if np.isnan(inputs).any():
        raise BadInput(f"input row {int(np.argmax(np.isnan(inputs)))} is not a number; leave it out or give a value")
    return np.clip(inputs, low, high)


def fractions(inputs: Floats, low: float, high: float) -> Words:
    """(x - low)/(high - low) in whole 2^-32, from 0 to 2^32."""
    share = (clip(inputs, low, high) - low) / (high - low)
    return np.rint(np.clip(share, 0.0, 1.0) * float(PLACES)).astype(np.uint64)
