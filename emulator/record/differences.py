"""The first difference between two messages, with both values, so that a person can see it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from parley.emulator.randomizer import layout, row_bytes
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Message, Replies

MISSING = None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Where two records part: the round, the user (None: the analyst), and what each of them holds."""

    round: int | None
    user: int | None
    recorded: Any
    replayed: Any

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"round": self.round, "user": self.user, "recorded": self.recorded, "replayed": self.replayed}


def compare_messages(recorded: Message | None, replayed: Message | None) -> Difference | None:
    """Two words of the analyst: None where not a byte differs, else the first value that does."""
    if recorded is not None and replayed is not None and encode(recorded) == encode(replayed):
        return None
    number = getattr(recorded if recorded is not None else replayed, "round", None)
    if recorded is None or replayed is None or type(recorded) is not type(replayed):
        kinds = [MISSING if each is None else {"kind": each.kind} for each in (recorded, replayed)]
        return Difference(round=number, user=None, recorded=kinds[0], replayed=kinds[1])
    for each in fields(recorded):
        found = _compare(each.name, getattr(recorded, each.name), getattr(replayed, each.name))
        if found is not None:
            return Difference(round=number, user=None, recorded={found[0]: found[1]}, replayed={found[0]: found[2]})
    return Difference(round=number, user=None, recorded={"bytes": "differ"}, replayed={"bytes": "differ"})


def compare_replies(recorded: Replies, replayed: Replies) -> Difference | None:
    """Two frames of the same users: the first user whose reply is not the same bytes."""
    if not np.array_equal(recorded.users, replayed.users):
        return _unmatched(recorded, replayed)
    for user in _different_rows(recorded, replayed):
        return Difference(
            round=recorded.round,
            user=int(recorded.users[user]),
            recorded=reply_of(recorded, user),
            replayed=reply_of(replayed, user),
        )
    return None


def reply_of(replies: Replies, row: int) -> dict[str, Any]:
    """One user's reply, readable."""
    return {name: column[row].tolist() for name, column in replies.columns.items()}


def _unmatched(recorded: Replies, replayed: Replies) -> Difference:
    user = int(np.setxor1d(recorded.users, replayed.users)[0])
    values = []
    for replies in (recorded, replayed):
        row = np.flatnonzero(replies.users == user)
        values.append(reply_of(replies, int(row[0])) if len(row) else MISSING)
    return Difference(round=recorded.round, user=user, recorded=values[0], replayed=values[1])


def _different_rows(one: Replies, other: Replies) -> list[int]:
    rows = len(one.users)
    if layout(one.columns) != layout(other.columns):
        return [0] if rows else []
    return np.flatnonzero((row_bytes(one.columns, rows) != row_bytes(other.columns, rows)).any(axis=1)).tolist()


def _compare(name: str, one: Any, other: Any) -> tuple[str, Any, Any] | None:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            found = _compare(f"{name}.{key}", one.get(key), other.get(key))
            if found is not None:
                return found
        return None
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return next((found for place, pair in pairs if (found := _compare(f"{name}[{place}]", *pair))), None)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _compare_arrays(name, one, other)
    same = type(one) is type(other) and not isinstance(one, tuple) and one == other
    return None if same else (name, _plain(one), _plain(other))


def _compare_arrays(name: str, one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> tuple[str, Any, Any] | None:
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return name, f"{one.dtype} {one.shape}", f"{other.dtype} {other.shape}"
    # Bytes, not values: -0.0 equals 0.0 and is another message.
    different = np.flatnonzero(
        row_bytes({"": one.reshape(-1)}, one.size) != row_bytes({"": other.reshape(-1)}, one.size)
    )
    if not len(different):
        return None
    place = int(different[0]) // one.dtype.itemsize
    return f"{name}[{place}]", one.reshape(-1)[place].item(), other.reshape(-1)[place].item()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return list(value) if isinstance(value, tuple) else value
