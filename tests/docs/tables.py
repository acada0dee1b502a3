"""What of the documents is made from the code: `python -m tests.docs.tables --write`.

Without `--write` it prints the names of pages that have drifted, and fails if there are any.
"""

import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from benchmarks.shape import graph
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Shape
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import _LENGTHS, MESSAGES, Message, Outcome, Ready, Users
from parley.nodes.state.announcer import topic_of
from parley.protocols.registry import BUILT_IN, design
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kernel import Kernel
from tests.docs import protocol_page
from tests.vectors.make import example
from tests.vectors.wire import ALICE, BOARD, NONCE, NOW, bound_nonce, messages

DOCS = Path(__file__).resolve().parents[2] / "docs"
TYPES: dict[Any, str] = {
    str: "text",
    int: "count",
    float: "float",
    bytes: "bytes",
    Outcome: "text",
    Users: "user numbers",
    Mapping[str, Any]: "map to anything",
    Mapping[str, NDArray[Any]]: "map to arrays",
    Mapping[str, tuple[int, ...]]: "map to lists of counts",
    Mapping[str, int]: "map to counts",
    NDArray[Any]: "array",
    tuple[int, ...]: "list of counts",
    tuple[str, ...]: "list of texts",
    tuple[bytes, ...]: "list of bytes",
}
SAID_BY = {
    "ready": "node",
    "roster": "board",
    "setup": "analyst",
    "announce": "analyst",
    "replies": "node, shuffler",
    "refusal": "node, shuffler",
    "close": "board",
    "result": "analyst",
    "abort": "board, analyst",
    "reminder": "board",
    "resume": "analyst",
    "event": "board, launcher",
    "receipt": "board",
    "inquiry": "node",
    "pledge": "shuffler",
    "seating": "board, shuffler",
    "shard": "sub-analyst",
    "tally": "sub-analyst",
    "tie": "sub-analyst",
}
NEVER_RECORDED = ("resume", "receipt", "inquiry", "pledge", "seating")
UNPUBLISHED = {"resume": "-", "inquiry": "-", "receipt": "P", "seating": "P", "pledge": "B, by the shuffler"}


def field_type(kind: type[Message], name: str, hint: Any) -> str:
    if name in kind.names:
        return "name"
    if hint is bytes and name in _LENGTHS:
        return f"bytes ({_LENGTHS[name]})"
    return TYPES[hint]


def message_table() -> str:
    """Every kind of message with its fields, from the dataclasses."""
    lines = [
        "| tag | message | said by | on record | topic | signature bound to | fields (* since format 2) |",
        "|---|---|---|---|---|---|---|",
    ]
    signed = {message.kind: (message, signer) for message, signer in messages()}
    for tag, kind in enumerate(MESSAGES):
        message, signer = signed[kind.kind]
        nonce = "not signed" if signer is None else "the run's" if bound_nonce(message) == NONCE else "none"
        nonce = "its own" if kind.kind in ("setup", "abort", "seating") else nonce
        topic = UNPUBLISHED.get(kind.kind) or topic_of(message).decode()
        recorded = "no" if kind.kind in NEVER_RECORDED else "yes"
        hints, starred = get_type_hints(kind), kind.since_format_2
        described = ", ".join(
            f"`{name}`{'*' if name in starred else ''} {field_type(kind, name, hints[name])}"
            for name in (each.name for each in fields(kind))
        )
        lines.append(f"| {tag} | `{kind.kind}` | {SAID_BY[kind.kind]} | {recorded} | {topic} | {nonce} | {described} |")
    return "\n".join(lines)


def example_record(path: Path) -> bytes:
    """The record of transcript.md's example."""
    with TranscriptWriter.create(path, "r1", created=NOW) as writer:
        ready = Ready(node="alice", first=0, users=2, pid=4711, run="r1", key=ALICE.public)
        writer.append("alice", encode(ready, ALICE), NOW + 500_000_000)
        writer.close("aborted", "stopped by hand", BOARD)
    return path.read_bytes()


def example_dump() -> str:
    """Its bytes, sixteen a line."""
    with TemporaryDirectory() as folder:
        data = example_record(Path(folder) / "transcript.parley")
    lines = [f"{start:04x}  {data[start : start + 16].hex(' ')}" for start in range(0, len(data), 16)]
    return "\n".join(["```", *lines, "```"])


def shapes(shape: Shape) -> str:
    """Arrays as `name` type [dimensions]; numbers depend on the example, so they are left out."""
    found = [f"`{name}` {np.dtype(dtype).name}{'[]' * len(each)}" for name, (dtype, each) in shape.items()]
    return ", ".join(found) or "nothing"


def protocol_table() -> str:
    """Every registered protocol: its rounds, what is broadcast, what is replied, through which randomizers."""
    lines = ["| protocol | round | broadcast | reply | coins |", "|---|---|---|---|---|"]
    for name in registered():
        rounds = [(number, step) for protocol in examples(name) for number, step in enumerate(protocol.rounds, 1)]
        for number, step in sorted(rounds, key=lambda each: each[0]):
            sends = "; ".join(f"{name}: {type(send.randomizer).__name__}" for name, send in step.usual.items())
            sent = f"{shapes(step.reply)}{f' ({sends})' if sends else ''}"
            line = f"| `{name}` | {number}: {step.name} | {shapes(step.broadcast)} | {sent} | {step.coins} |"
            lines += [line] if line not in lines else []
    return "\n".join(lines)


def examples(name: str) -> list[Protocol]:
    """A small example, and one with many inputs where few inputs are treated otherwise."""
    small = example(name, users=MANY)
    if getattr(small, "strategy", None) is None:
        return [small]
    return [small, design(name, GiniMeanDifference(levels=40), epsilon=1.0, users=MANY)]


MANY = 2000


def registered() -> list[str]:
    """Parley's own protocols."""
    return list(BUILT_IN)


def parameter_names(name: str) -> list[str]:
    """What the Setup of a protocol carries, for a statistic of its own and for one whose factors must travel."""
    kernel = Kernel(np.array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.25], [0.5, 0.25, 0.0]]))
    found = {each for protocol in examples(name) for each in protocol.parameters()}
    with suppress(BadInput):
        found |= set(design(name, kernel, epsilon=1.0, users=MANY).parameters())
    return sorted(found)


def parameter_table() -> str:
    """The names of each protocol's parameters."""
    lines = ["| protocol | parameters |", "|---|---|"]
    for name in registered():
        always = set.intersection(*(set(each.parameters()) for each in examples(name)))
        shown = [f"`{each}`{'' if each in always else '*'}" for each in parameter_names(name)]
        lines.append(f"| `{name}` | {', '.join(shown)} |")
    star = "A star marks what is not always there: factors, for statistics without a closed form; a `strategy`, or else"
    return "\n".join([*lines, "", star, "`power`, `seeds`, `candidates` and `top`."])


TABLES = {
    "architecture.md": {"graph": graph},
    "protocols.md": {"overview": protocol_page.overview, "protocols": protocol_page.protocols},
    "transcript.md": {"messages": message_table, "example": example_dump},
    "wire.md": {"protocols": protocol_table, "parameters": parameter_table},
}


def fill(page: str, name: str, table: str) -> str:
    """The page with this table between its marks."""
    marks = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    filled, count = marks.subn(lambda found: found[1] + table + "\n" + found[2], page)
    if count != 1:
        raise ValueError(f"the marks of the table {name} are there {count} times")
    return filled


def made(page: str) -> str:
    """A page as it should be."""
    content = (DOCS / page).read_text(encoding="utf-8")
    for name, table in TABLES[page].items():
        content = fill(content, name, table())
    return content


def main(arguments: list[str]) -> int:
    drifted = [page for page in TABLES if made(page) != (DOCS / page).read_text(encoding="utf-8")]
    if arguments == ["--write"]:
        for page in drifted:
            (DOCS / page).write_text(made(page), encoding="utf-8")
        return 0
    print("\n".join(drifted))
    return int(bool(drifted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
