"""Result: the analyst's every word recomputed from the record, bit for bit.

Where the words do not follow bit for bit, they may still follow up to rounding, which is no lie.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.records import Record
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Announce, Message, Result

ELSEWHERE = "it was computed on another kind of processor, with another number of threads, or with other libraries"
# Far above what the order of additions does to a sum, far below the noise of any protocol.
ROUNDING = 1e-9
ROUNDED = {Announce: ("broadcast",), Result: ("estimate", "predicted_rmse", "low", "high", "details")}


class TolerantAnalyst(AnalystRole):
    """An analyst that takes a word for its own if only rounding differs, and goes on from the word on record."""

    def agrees(self, message: Message, said: Message | None) -> bool:
        if type(message) is not type(said):
            return False
        loose = {name: getattr(message, name) for name in ROUNDED.get(type(message), ())}
        if not all(_near(value, getattr(said, name)) for name, value in loose.items()):
            return False
        return encode(message) == encode(replace(said, **loose))


def check_result(conversation: Conversation) -> Verdict:
    """A fresh analyst that hears the record must say what the record says it said."""
    setup, protocol, ending = conversation.setup, conversation.protocol, conversation.ending
    recorded = ending.estimate if isinstance(ending, Result) else None
    if setup is None or protocol is None:
        return unknown(conversation.unbuilt, estimate=recorded)
    role = AnalystRole(protocol, setup.run, setup.domain, format=conversation.format)
    another = _hear_all(conversation, role, strict=True)
    if another is not None:
        record, error = another
        found = {"estimate": recorded, "record": record.sequence}
        tolerant = TolerantAnalyst(protocol, setup.run, setup.domain, format=conversation.format)
        if _hear_all(conversation, tolerant) is not None:
            return failed(f"record {record.sequence}: {error}", **found)
        reason = f"record {record.sequence} comes out the same up to rounding, not bit for bit: {ELSEWHERE}"
        return unknown(reason, **found)
    conversation.tallies = role.tallies
    if not isinstance(ending, Result):
        return unknown("the record holds no result", estimate=None, rejected=role.rejected)
    return passed(estimate=recorded, replied=role.replied, rejected=role.rejected)


def _hear_all(
    conversation: Conversation, role: AnalystRole, *, strict: bool = False
) -> tuple[Record, Exception] | None:
    """The first record at which this analyst stops, and why; with `strict`, also where it gave up without a reason."""
    with np.errstate(all="ignore"), one_thread():
        for record, message in conversation.messages():
            try:
                given_up = strict and isinstance(message, Abort) and record.sender == ANALYST_NAME
                if given_up and not any(isinstance(each, Abort) for each in role.pending[:1]):
                    raise RemoteProtocolError("the analyst gave up without a reason")
                role.hear(message)
            except (ParleyError, ArithmeticError, ValueError, LookupError) as error:
                return record, error
    return None


def _near(one: Any, other: Any) -> bool:
    """Equal up to rounding: floats relative to the largest number beside them, all else exactly."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_near(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_near, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind != "f":
            return one.dtype == other.dtype and bool(np.array_equal(one, other))
        scale = max(1e-300, float(np.abs(other).max(initial=0.0)))
        return bool((np.abs(one - other) <= ROUNDING * scale).all())
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        return math.isclose(float(one), float(other), rel_tol=ROUNDING, abs_tol=ROUNDING)
    return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and bool(one == other)
