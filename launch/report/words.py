"""What the report says about one message: a headline, and a few lines about its body."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.record.records import Record
from parley.emulator.wire import messages as wire
from parley.launch.results.display.printable import printable

SHOWN = 4
LONGEST = 160
MOST_LINES = 8
ELSEWHERE = ("run", "round")
# The field that holds what a message is about.
BODIES: dict[type[wire.Message], str] = {
    **{wire.Replies: "columns", wire.Announce: "broadcast", wire.Setup: "parameters", wire.Result: "details"},
    wire.Tally: "sums",
}


def cut(text: str, longest: int = LONGEST) -> str:
    """Text that fits, with everything invisible escaped; an ellipsis marks a cut."""
    text = printable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def plural(count: int, noun: str) -> str:
    """`1 user`, `2,000 users`."""
    several = "replies" if noun == "reply" else f"{noun}s"
    return f"{count:,} {noun if count == 1 else several}"


def _shape(array: NDArray[Any]) -> str:
    return " × ".join(str(size) for size in array.shape) or "one"


def number(value: float | int | bool) -> str:
    """A number in a few digits; whole numbers are not rounded."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def value_brief(value: Any) -> str:
    """Any value of a parameter or detail; of an array its shape, first entries and range."""
    if isinstance(value, np.ndarray):
        kind, flat = f"{_shape(value)} {value.dtype}", value.reshape(-1)
        first = ", ".join(map(number, flat[:SHOWN].tolist()))
        if value.size <= 1:
            return first or kind
        between = f", … between {number(flat.min().item())} and {number(flat.max().item())}"
        return f"{kind}: {first}{between if value.size > SHOWN else ''}"
    if isinstance(value, bytes):
        return plural(len(value), "byte")
    if isinstance(value, Mapping):
        return cut(", ".join(f"{cut(str(name), 40)} {value_brief(each)}" for name, each in list(value.items())[:SHOWN]))
    if isinstance(value, list | tuple):
        more = ", …" if len(value) > SHOWN else ""
        return cut(", ".join(value_brief(each) for each in value[:SHOWN]) + more)
    return f"{value:.6g}" if isinstance(value, float) else cut(str(value), 80)


def named(values: Mapping[str, Any]) -> list[str]:
    """One line per value."""
    lines = [cut(f"{cut(name, 40)}: {value_brief(value)}") for name, value in list(values.items())[:MOST_LINES]]
    return lines if len(values) <= MOST_LINES else [*lines, f"and {len(values) - MOST_LINES} more"]


def who(users: wire.Users) -> str:
    if not len(users):
        return "nobody"
    first, last = int(users[0]), int(users[-1])
    if first == last:
        return f"user {first}"
    span = f"users {first} to {last}"
    return span if last - first + 1 == len(users) else f"among {span}"


def headline(message: wire.Message) -> str:
    if isinstance(message, wire.Replies):
        return plural(len(message.users), "reply") + (f": {who(message.users)}" if len(message.users) else "")
    if isinstance(message, wire.Ready):
        return f"process {message.pid}, users {message.first} to {message.first + message.users - 1}"
    if isinstance(message, wire.Roster):
        return f"{plural(message.nodes, 'node')} with {plural(message.users, 'user')}"
    if isinstance(message, wire.Setup):
        return f"{message.protocol}, epsilon {message.epsilon:g}, {plural(message.rounds, 'round')}"
    if isinstance(message, wire.Announce):
        named_arrays = list(message.broadcast.items())[:SHOWN]
        arrays = ", ".join(f"{cut(name, 40)} [{_shape(array)}]" for name, array in named_arrays)
        return f"round {message.round} opens" + (f" with {arrays}" if arrays else "")
    if isinstance(message, wire.Close):
        absent = f", {plural(message.missing, 'user')} missing" if message.missing else ""
        return plural(message.replies, "reply") + absent
    if isinstance(message, wire.Result):
        return f"estimate {message.estimate:.6g} in [{message.low:.6g}, {message.high:.6g}]"
    if isinstance(message, wire.Reminder):
        return f"still missing {plural(len(message.missing), 'node')}"
    if isinstance(message, wire.Event):
        return cut(f"{message.event} at {message.node}: {message.detail}")
    if isinstance(message, wire.Shard):
        spans = [f"{first} to {end - 1}" for first, end in message.stretches[:SHOWN].tolist()]
        more = ", …" if len(message.stretches) > SHOWN else ""
        return cut(f"process {message.pid}, its board has users {', '.join(spans)}{more}")
    if isinstance(message, wire.Tally):
        rejected = sum(message.rejected.values())
        left_out = f", {plural(rejected, 'reply')} rejected" if rejected else ""
        silent = f", {plural(message.silent, 'user')} silent" if message.silent else ""
        return f"sums over {plural(message.replies, 'reply')}{left_out}{silent}"
    if isinstance(message, wire.Tie):
        return "proof that the records of this shard's board are under the head of the whole run"
    if isinstance(message, wire.Receipt):
        return f"proof that {plural(len(message.chunks), 'frame')} of {message.node} stand on record"
    if isinstance(message, wire.Inquiry):
        return "asks for the receipt of this round" if message.round else "asks who holds its seat"
    if isinstance(message, wire.Pledge):
        return "the shuffler serves this run"
    if isinstance(message, wire.Seating):
        return f"the seat of {message.node} belongs to the key {message.key[:8].hex()}…"
    if isinstance(message, wire.Refusal | wire.Abort):
        return cut(message.reason)
    others = {each.name: getattr(message, each.name) for each in fields(message) if each.name not in ELSEWHERE}
    return cut(", ".join(named(others)))


def row(record: Record) -> dict[str, Any]:
    """What a table shows of a record besides its content."""
    return {
        "sequence": record.sequence,
        "sender": record.sender,
        "kind": record.message.kind,
        "round": getattr(record.message, "round", None),
        "bytes": len(record.frame),
    }


def body(message: wire.Message) -> list[str]:
    if isinstance(message, wire.Reminder):
        return [cut(", ".join(message.missing))]
    return named(getattr(message, BODIES[type(message)])) if type(message) in BODIES else []
