"""Whether the analyst's words follow from the record up to rounding, where they do not follow bit for bit."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import Conversation
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Message, Result, Setup

# Far above what the order of additions does to a sum, far below the noise of any protocol.
ROUNDING = 1e-9
ROUNDED = {Announce: ("broadcast",), Result: ("estimate", "predicted_rmse", "low", "high", "details")}


class TolerantAnalyst(AnalystRole):
    """An analyst that takes a word for its own if only rounding differs, and goes on from the word on record."""

    def agrees(self, message: Message, said: Message | None) -> bool:
        return said is not None and near(message, said)


def nearly_the_same(conversation: Conversation, setup: Setup, protocol: Protocol) -> bool:
    """Each word recomputed from recorded replies and recorded broadcasts is nearly the recorded word."""
    role = TolerantAnalyst(protocol, setup.run, setup.domain, format=conversation.format)
    try:
        with np.errstate(all="ignore"), one_thread():
            for _, message in conversation.messages():
                role.hear(message)
    except (ParleyError, ArithmeticError, ValueError, LookupError):
        return False
    return True


def near(one: Message, other: Message) -> bool:
    """Messages of one kind whose broadcasts, estimates and details differ by rounding, and in nothing else."""
    if type(one) is not type(other):
        return False
    loose = {name: getattr(one, name) for name in ROUNDED.get(type(one), ())}
    if not all(_near(value, getattr(other, name)) for name, value in loose.items()):
        return False
    return encode(one) == encode(replace(other, **loose))


def _near(one: Any, other: Any) -> bool:
    """Equal up to rounding: floats relative to the largest number beside them, all else exactly."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype and _near_arrays(one, other)
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        return math.isclose(float(one), float(other), rel_tol=ROUNDING, abs_tol=ROUNDING)
    return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and bool(one == other)


def _near_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    scale = max(1e-300, float(np.abs(other).max(initial=0.0)))
    return bool((np.abs(one - other) <= ROUNDING * scale).all())
