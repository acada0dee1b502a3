"""Records that a forger changed: random edits of a transcript, each with a chain of hashes that fits.

    python -m tests.launch.record_edits [EDITS] [SEED]

runs every command on every edit of every golden transcript, for as long as that takes.
"""

import contextlib
import io
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from parley.emulator.errors import LocalProtocolError, ParleyError, RemoteProtocolError
from parley.emulator.record.records import HASH_BYTES, Record, head, link, start
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.codec import encode, pack, unpack
from parley.emulator.wire.messages import MESSAGES, Message, Users
from parley.launch.cli import run
from parley.protocols.registry import names
from tests.vectors.make import golden_path

EDITS = 200
CODES = (0, 1, 2, 3)
TEXTS = (
    "",
    "user",
    "reply.user",
    "\x1b[2J\x1b[31mred",
    "two\nlines\r",
    "\u202eturned",
    "\u2028",
    "\x7f\x9b",
    "</script>",
    "é" * 90,
)
NUMBERS = (0, 1, 2, 3, 255, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**61, 2**62 - 1)
FLOATS = (0.0, -0.0, 1e-320, 1e-9, 1.0, -1.0, 1e9, 1e308, -1e308)
TYPES = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8", "?")
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (3,), (2, 2), (0, 3), (3, 0))

Generator = np.random.Generator
Payloads = list[bytes]


def payloads_of(path: Path) -> Payloads:
    """What the records of a transcript hold, header and closing record included."""
    content = path.read_bytes()
    place = len(head(TranscriptReader(path).version))
    found = []
    while place < len(content):
        size = int.from_bytes(content[place : place + 4], "little")
        found.append(content[place + 4 : place + 4 + size])
        place += 4 + size + HASH_BYTES
    return found


def chained(payloads: Payloads, version: int) -> bytes:
    """A transcript that holds them, with hashes that fit."""
    chain, parts = start(version).chain, [head(version)]
    for payload in payloads:
        length = len(payload).to_bytes(4, "little")
        chain = link(chain, length, payload)
        parts += [length, payload, chain]
    return b"".join(parts)


@dataclass(frozen=True)
class Original:
    """A golden transcript taken apart."""

    path: Path
    version: int
    payloads: Payloads
    records: list[Record]

    @classmethod
    def read(cls, path: Path) -> "Original":
        reader = TranscriptReader(path)
        return cls(path, reader.version, payloads_of(path), list(reader))

    def edited(self, generator: Generator) -> bytes:
        """The transcript after one to three edits, sometimes cut off as well."""
        payloads = list(self.payloads)
        for _ in range(int(generator.integers(1, 4))):
            # Numbers that do not fit their new type are part of the game.
            with np.errstate(all="ignore"):
                _choice(generator, EDITORS)(self, payloads, generator)
        content = chained(payloads, self.version)
        return content[: int(generator.integers(len(content)))] if generator.random() < 0.05 else content


def _choice(generator: Generator, values: Sequence[Any]) -> Any:
    return values[int(generator.integers(len(values)))]


def other_value(value: Any, generator: Generator) -> Any:
    """Something else of the same type, or now and then of another."""
    if generator.random() < 0.05:
        return _choice(generator, (_choice(generator, TEXTS), _choice(generator, NUMBERS), (), {}, None, True))
    if isinstance(value, bool) or value is None:
        return _choice(generator, (True, False, None))
    if isinstance(value, str):
        return _choice(generator, TEXTS)
    if isinstance(value, int):
        return _choice(generator, (value + 1, max(0, value - 1), *NUMBERS))
    if isinstance(value, float):
        return _choice(generator, (value * 2, value + 1.0, *FLOATS))
    if isinstance(value, bytes):
        flipped = bytes(255 - each for each in value)
        return _choice(generator, (flipped, b"", bytes(16), bytes(32), value + b"x"))
    if isinstance(value, dict):
        return _other_map(value, generator)
    if isinstance(value, tuple):
        return _other_tuple(value, generator)
    return _other_array(value, generator) if isinstance(value, np.ndarray) else value


def _other_map(value: dict[str, Any], generator: Generator) -> dict[str, Any]:
    changed = dict(value)
    name = _choice(generator, [*changed, _choice(generator, TEXTS)])
    kind = generator.integers(4)
    if kind == 0:
        changed.pop(name, None)
    elif kind == 1:
        changed[_choice(generator, TEXTS)[:64]] = changed.pop(name, 1)
    elif name in changed:
        changed[name] = other_value(changed[name], generator)
    return changed


def _other_tuple(value: tuple[Any, ...], generator: Generator) -> tuple[Any, ...]:
    if not value or generator.random() < 0.2:
        return (*value, _choice(generator, NUMBERS))
    place = int(generator.integers(len(value)))
    if generator.random() < 0.2:
        return value[:place] + value[place + 1 :]
    return (*value[:place], other_value(value[place], generator), *value[place + 1 :])


def _other_array(value: np.ndarray[Any, Any], generator: Generator) -> np.ndarray[Any, Any]:
    kind = generator.integers(4)
    if kind == 0:
        return value.astype(_choice(generator, TYPES))
    if kind == 1 and value.ndim:
        return np.zeros((len(value), *_choice(generator, SHAPES)), value.dtype)
    if kind == 2 or not value.size:
        return np.zeros(_choice(generator, SHAPES), _choice(generator, TYPES))
    flat = value.reshape(-1).copy()
    flat[int(generator.integers(flat.size))] = _choice(generator, (0, 1, 99, 127))
    return flat.reshape(value.shape)


def _place(payloads: Payloads, generator: Generator) -> int:
    """A record that is neither the header nor, as a rule, the closing record."""
    return int(generator.integers(1, max(2, len(payloads))))


def write_message(payloads: Payloads, place: int, record: Record, frame: bytes) -> None:
    """Put a frame in the place of a record, sent by the same party at the same time."""
    payloads[place] = pack([place - 1, record.time_ns, record.sender, frame])


def edit_field(original: Original, payloads: Payloads, generator: Generator) -> None:
    """One field of one message gets another value; an edit that makes no message is tried again."""
    for _ in range(20):
        record = _choice(generator, original.records)
        name = _choice(generator, [each.name for each in fields(record.message)])
        value = getattr(record.message, name)
        with contextlib.suppress(ParleyError, ValueError, OverflowError, TypeError, AttributeError):
            changed = replace(record.message, **{name: other_value(value, generator)})
            frame = encode(changed)
            if record.sequence + 1 < len(payloads):
                write_message(payloads, record.sequence + 1, record, frame)
            return


def edit_column(original: Original, payloads: Payloads, generator: Generator) -> None:
    """One column of a frame of replies gets another name, type or shape, and still fits its users."""
    replies = [each for each in original.records if hasattr(each.message, "columns")]
    record = _choice(generator, replies)
    columns: dict[str, Any] = dict(record.message.columns)
    name = _choice(generator, list(columns))
    column = columns.pop(name)
    shape = (len(column), *_choice(generator, [*SHAPES, column.shape[1:]])[:2])
    name = _choice(generator, (name, name, *(each[:64] for each in TEXTS)))
    columns[name] = np.resize(column, shape).astype(_choice(generator, TYPES))
    if record.sequence + 1 < len(payloads):
        changed = replace(record.message, columns=columns)
        write_message(payloads, record.sequence + 1, record, encode(changed))


def edit_bytes(original: Original, payloads: Payloads, generator: Generator) -> None:
    """Some bytes of a payload."""
    place = int(generator.integers(len(payloads)))
    data = bytearray(payloads[place])
    for _ in range(int(generator.integers(1, 4))):
        data[int(generator.integers(len(data)))] = int(generator.integers(256))
    payloads[place] = bytes(data)


def edit_order(original: Original, payloads: Payloads, generator: Generator) -> None:
    """A message goes, comes twice, or changes places; all are numbered anew and the closing record counts them."""
    place = _place(payloads, generator)
    kind = generator.integers(3)
    if kind == 0 and len(payloads) > 3:
        del payloads[place]
    elif kind == 1:
        payloads.insert(place, payloads[place])
    else:
        other = _place(payloads, generator)
        payloads[place], payloads[other] = payloads[other], payloads[place]
    _renumber(payloads)


def _renumber(payloads: Payloads) -> None:
    for place, payload in enumerate(payloads):
        with contextlib.suppress(RemoteProtocolError, LocalProtocolError):
            value = unpack(payload)
            if isinstance(value, tuple) and len(value) == 4:
                payloads[place] = pack([place - 1, *value[1:]])
            elif isinstance(value, tuple) and len(value) == 2 and value[0] == "end" and isinstance(value[1], dict):
                payloads[place] = pack(["end", {**value[1], "records": place - 1}])


def edit_outside(original: Original, payloads: Payloads, generator: Generator) -> None:
    """A value of the header or of the closing record, or the sender or time of a message."""
    place = _choice(generator, (0, len(payloads) - 1, _place(payloads, generator)))
    with contextlib.suppress(RemoteProtocolError, LocalProtocolError):
        payloads[place] = pack(other_value(unpack(payloads[place]), generator))


def add_message(original: Original, payloads: Payloads, generator: Generator) -> None:
    """A message of any kind there is, its fields filled by their types, at any place."""
    for _ in range(20):
        kind = _choice(generator, MESSAGES)
        with contextlib.suppress(ParleyError, ValueError, OverflowError, TypeError, AttributeError):
            frame = encode(any_message(kind, generator))
            record = _choice(generator, original.records)
            payloads.insert(_place(payloads, generator), pack([0, record.time_ns, record.sender, frame]))
            _renumber(payloads)
            return


def any_message(kind: type[Message], generator: Generator) -> Message:
    """A message whose every field is chance, as far as its own checks allow."""
    made: dict[str, Any] = {}
    for name, sort in sorts(kind).items():
        key = _choice(generator, TEXTS)[:64]
        made[name] = {
            "name": _choice(generator, ("node-0", "recorded", "analyst", "board", "three-round")),
            "text": _choice(generator, TEXTS),
            "choice": _choice(generator, ("failed", "aborted")),
            "int": _choice(generator, NUMBERS),
            "float": _choice(generator, FLOATS),
            "users": np.arange(int(generator.integers(4))) + _choice(generator, NUMBERS[:-2]),
            "arrays": {key: np.zeros(len(made.get("users", "ab")), _choice(generator, TYPES))},
            "pairs": np.sort(generator.integers(9, size=(1, 2))),
            "numbers": {key: _choice(generator, NUMBERS)},
            "tuples": {key: (1, 2)},
            "bytes": bytes(int(_choice(generator, (0, 16, 32)))),
            "texts": (key,),
            "counts": (0,),
            "digests": (bytes(32),),
            "plain": {key: _choice(generator, (TEXTS[3], (), 2, np.zeros(2)))},
        }[sort]
    return kind(**made)


def sorts(kind: type[Message]) -> dict[str, str]:
    """What each field of a message holds, from the class itself."""
    hints = get_type_hints(kind)
    found = {}
    for each in fields(kind):
        hint = hints[each.name]
        inside = get_args(hint)[-1] if get_origin(hint) is Mapping else None
        if each.name in kind.names:
            found[each.name] = "name"
        elif hint in (str, int, float):
            found[each.name] = {str: "text", int: "int", float: "float"}[hint]
        elif get_origin(hint) is Literal:
            found[each.name] = "choice"
        elif hint == Users:
            found[each.name] = "users"
        elif get_origin(hint) is np.ndarray:
            found[each.name] = "pairs"
        elif hint is bytes:
            found[each.name] = "bytes"
        elif get_origin(hint) is tuple:
            found[each.name] = {str: "texts", int: "counts", bytes: "digests"}[get_args(hint)[0]]
        else:
            found[each.name] = {np.ndarray: "arrays", tuple: "tuples", int: "numbers"}.get(
                get_origin(inside) or inside, "plain"
            )
    return found


EDITORS: tuple[Callable[[Original, Payloads, Generator], None], ...] = (
    edit_field,
    edit_field,
    edit_field,
    edit_column,
    edit_bytes,
    edit_order,
    edit_outside,
    add_message,
)


def commands(record: Path, golden: Path, folder: Path) -> list[list[str]]:
    """Every command that reads a record and prints or writes what it says."""
    table, lines, page = folder / "rows.parquet", folder / "rows.jsonl", folder / "page.html"
    return [
        ["show", str(record)],
        ["show", str(record), "--json"],
        ["export", str(record), "--out", str(lines)],
        ["export", str(record), "--out", str(table)],
        ["diff", str(record), str(golden)],
        ["replay", str(record)],
        ["report", str(record), "--out", str(page)],
    ]


@dataclass(frozen=True)
class Broken:
    """A command that did not keep its promise: what was called, on which bytes, and what it said."""

    command: list[str]
    content: bytes
    said: str


def call(arguments: list[str]) -> tuple[int | None, str]:
    """Exit code and all that was printed; no code, and the traceback, if the command fell."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code: int | None = run(arguments)
        except Exception:  # noqa: BLE001, whatever falls out of a command is what is looked for here
            return None, said.getvalue() + traceback.format_exc()
    return code, said.getvalue()


def hidden(said: str) -> str:
    """The characters in it that a terminal might obey."""
    return "".join(sorted({each for each in said if not each.isprintable() and each != "\n"}))


def try_edits(
    edits: int, seed: int, folder: Path, *, every_command: bool
) -> Iterator[tuple[str, int | None, Broken | None]]:
    """Run commands on so many edits of each golden transcript: one command each in turn, or every one."""
    generator = np.random.default_rng(seed)
    for name in names("shuffler"):
        original = Original.read(golden_path(name))
        for number in range(edits):
            record = folder / "edited.parley"
            content = original.edited(generator)
            record.write_bytes(content)
            wanted = commands(record, original.path, folder)
            for arguments in wanted if every_command else [wanted[number % len(wanted)]]:
                code, said = call(arguments)
                for left in (folder / "rows.parquet", folder / "rows.jsonl"):
                    left.unlink(missing_ok=True)
                good = code in CODES and "Traceback" not in said and not hidden(said)
                yield arguments[0], code, None if good else Broken(arguments, content, said)


def main() -> None:
    edits = int(sys.argv[1]) if len(sys.argv) > 1 else EDITS
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    counts: Counter[tuple[str, int | None]] = Counter()
    failures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for command, code, broken in try_edits(edits, seed, Path(folder), every_command=True):
            counts[command, code] += 1
            if broken is not None:
                failures[f"{command}: {hidden(broken.said)!r}\n" + "\n".join(broken.said.splitlines()[-7:])] += 1
    for (command, code), count in sorted(counts.items(), key=str):
        print(f"{command} ended {count} times with the exit code {code}")
    for what, count in failures.most_common():
        print(f"\n{count} times {what}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
