"""Whether the analyst's words follow from the record up to rounding, where they do not follow bit for bit."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import Conversation
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.wire.messages import Announce, Message, Result, Setup

# Far above what the order of additions does to a sum, far below the noise of any protocol.
ROUNDING = 1e-9


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
    rounded = ("broadcast", "estimate", "predicted_rmse", "low", "high", "details")
    loose = isinstance(one, Announce | Result)
    for each in fields(one):
        ours, theirs = getattr(one, each.name), getattr(other, each.name)
        if not (_near(ours, theirs) if loose and each.name in rounded else _same(ours, theirs)):
            return False
    return True


def _same(one: Any, other: Any) -> bool:
    """Equal, down to arrays and their types."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return (
            isinstance(one, np.ndarray)
            and isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and np.array_equal(one, other)
        )
    return bool(one == other)


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
    return _same(one, other)


def _near_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    scale = max(1e-300, float(np.abs(other).max(initial=0.0)))
    return bool((np.abs(one - other) <= ROUNDING * scale).all())
