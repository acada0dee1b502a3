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


def exact_range(values: Floats) -> tuple[float, float]:
    """The least and the greatest of a public function's k values, apart even where it is constant."""
    low, high = float(values.min()), float(values.max())
    pad = 1e-8 * max(abs(low), abs(high), 1e-100)
    return (low, high) if high - low > pad else (low - pad, high + pad)
