"""Whether the analyst's words follow from the record up to rounding, where they do not follow bit for bit."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator.arithmetic import one_thread
from emulator.audit.answers import tallies
from emulator.audit.conversation import Conversation
from emulator.errors import ParleyError
from emulator.messages import Announce, Result
from emulator.protocol import Broadcast, Estimate, Protocol

# Far above what the order of additions does to a sum, far below the noise of any protocol.
ROUNDING = 1e-9


def nearly_the_same(conversation: Conversation, protocol: Protocol) -> bool:
    """Each word recomputed from recorded replies and recorded broadcasts is nearly the recorded word."""
    announces = sorted(conversation.announces, key=lambda each: each.round)
    recorded: list[Announce | Result] = [*announces]
    if isinstance(conversation.ending, Result):
        recorded.append(conversation.ending)
    if [each.round for each in announces] != list(range(1, len(announces) + 1)):
        return False
    sums = tallies(conversation, protocol)
    try:
        with np.errstate(all="ignore"), one_thread():
            for number, word in enumerate(recorded):
                heard = tuple((announces[place].broadcast, sums[place + 1]) for place in range(number))
                if not _near(_words(protocol.conclude(heard) if heard else protocol.opening()), _recorded(word)):
                    return False
    except (ParleyError, ArithmeticError, ValueError, LookupError):
        return False
    return True


def _words(said: Broadcast | Estimate) -> dict[str, Any]:
    if not isinstance(said, Estimate):
        return dict(said)
    low, high = said.interval95
    return {
        "estimate": said.value,
        "predicted_rmse": said.predicted_rmse,
        "low": low,
        "high": high,
        "details": said.details,
    }


def _recorded(word: Announce | Result) -> dict[str, Any]:
    if isinstance(word, Announce):
        return dict(word.broadcast)
    names = ("estimate", "predicted_rmse", "low", "high", "details")
    return {name: getattr(word, name) for name in names}


def _near(one: Any, other: Any) -> bool:
    """Equal up to rounding: floats relative to the largest number beside them, all else exactly."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and _near_arrays(one, other)
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        return math.isclose(float(one), float(other), rel_tol=ROUNDING, abs_tol=ROUNDING)
    return bool(one == other)


def _near_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    scale = max(1e-300, float(np.abs(other).max(initial=0.0)))
    return bool((np.abs(one - other) <= ROUNDING * scale).all())
