"""Forge signed records in every way that needs no key, and audit each: none may pass.

    python -m benchmarks.forgery [--edits 2000] [--resigned 200] [--seed 1]

Each edit changes some fields, frames, senders, times, the order, the header or the end of an honest record, and makes
hashes, and where the forger likes heads of the tree, fit again. Re-signed records are whole runs under other keys. Lies
are whole runs whose replies were all exchanged and whose result was worked out anew. All are audited with the keys of
the honest run. The commands that read records are run on the edits as well: none may end in a traceback.
"""

import contextlib
import hashlib
import io
import shutil
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.signed import RUN, honest_words, other_replies, public_keys, signers_for, words_of, write_signed
from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.report import Report, audit
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree, leaf_of
from parley.emulator.record.records import VERSION, head, link, start
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.wire.codec import decode, encode, is_signed, pack
from parley.emulator.wire.messages import Announce, Close, Event, Message, Replies, Result
from parley.emulator.wire.security import write_trust
from parley.emulator.wire.signatures import SIGNATURE_BYTES, Signer
from parley.launch.cli import run
from parley.protocols.registry import build, design
from parley.protocols.workloads.kendall import Kendall

USERS, NODES, CHUNK = 60, 3, 10
PROTOCOLS = ("three-round", "one-round", "two-round-tuned", "binned")
KEY = key_from_seed(41)
CODES = (0, 1, 2, 3)
TEXTS = ("", "node-0", "board", "analyst", "\x1b[31mred", "two\nlines", "\u202eturned", "é" * 30)
NUMBERS = (0, 1, 2, 3, 255, 2**31, 2**53 + 1, 2**62 - 1)
FLOATS = (0.0, 1e-320, 1.0, -1.0, 1e308)
Generator = np.random.Generator


@dataclass
class Line:
    """One message of a record that a forger works on."""

    time_ns: int
    sender: str
    frame: bytes


@dataclass
class Draft:
    """A record taken apart: its header, its messages, its end."""

    header: dict[str, Any]
    lines: list[Line]
    end: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Draft":
        reader = TranscriptReader(path)
        lines = [Line(each.time_ns, each.sender, each.frame) for each in reader]
        assert reader.closing is not None
        end = {name: getattr(reader.closing, name) for name in ("outcome", "reason", "records", "root", "signature")}
        return cls(dict(reader.header), lines, end)

    def copy(self) -> "Draft":
        return Draft(dict(self.header), [replace(each) for each in self.lines], dict(self.end))

    def bytes(self, *, heads: bool, version: int = VERSION) -> bytes:
        """The file, with a chain that fits; with `heads` the heads of the tree fit as well."""
        if heads:
            self._fit_heads()
        payloads = [pack(["header", self.header])]
        payloads += [pack([number, each.time_ns, each.sender, each.frame]) for number, each in enumerate(self.lines)]
        payloads.append(pack(["end", {**self.end, "records": self.end.get("records", len(self.lines))}]))
        chain, parts = start(version).chain, [head(version)]
        for payload in payloads:
            length = len(payload).to_bytes(4, "little")
            chain = link(chain, length, payload)
            parts += [length, payload, chain]
        return b"".join(parts)

    def _fit_heads(self) -> None:
        tree = Tree()
        for number, line in enumerate(self.lines):
            with contextlib.suppress(ParleyError):
                message = decode(line.frame)
                fits = isinstance(message, Close) and (message.size, message.root) == (len(tree), tree.root())
                if isinstance(message, Close) and not fits:
                    line.frame = with_signature_of(line.frame, replace(message, size=len(tree), root=tree.root()))
            tree.append(leaf_of(number, line.time_ns, line.sender, digest(line.frame)))
        self.end |= {"root": tree.root(), "records": len(self.lines)}


def digest(frame: bytes) -> bytes:
    """The SHA-256 of a frame."""
    return hashlib.sha256(frame).digest()


def with_signature_of(frame: bytes, message: Message) -> bytes:
    """Another message under the signature of this frame: the best that a forger without keys can do."""
    body = encode(message)[:-4]
    body += frame[-4 - SIGNATURE_BYTES : -4] if is_signed(frame) else b""
    return body + zlib.crc32(body).to_bytes(4, "little")


def choice(generator: Generator, values: Sequence[Any]) -> Any:
    return values[int(generator.integers(len(values)))]


def other_value(value: Any, generator: Generator) -> Any:
    """Something else of the same kind."""
    if isinstance(value, str):
        return choice(generator, TEXTS)
    if isinstance(value, int):
        return choice(generator, (value + 1, max(0, value - 1), *NUMBERS))
    if isinstance(value, float):
        return choice(generator, (float(np.nextafter(value, 9.0)), value + 1.0, *FLOATS))
    if isinstance(value, bytes):
        return choice(generator, (b"", bytes(len(value)), value[::-1]))
    if isinstance(value, dict) and value:
        name = choice(generator, list(value))
        return {**value, name: other_value(value[name], generator)}
    if isinstance(value, tuple):
        return choice(generator, (value[1:], (*value, "node-0"), ()))
    if isinstance(value, np.ndarray) and value.size:
        flat = value.reshape(-1).copy()
        place = int(generator.integers(flat.size))
        flat[place] = flat[place] + 1 if flat.dtype.kind != "b" else not flat[place]
        return flat.reshape(value.shape)
    return value


def edit_field(draft: Draft, generator: Generator) -> None:
    """A field of a message, under the old signature, under none, or signed with a key of the forger's own."""
    line = choice(generator, draft.lines)
    message = decode(line.frame)
    name = choice(generator, [each.name for each in fields(message)])
    changed = replace(message, **{name: other_value(getattr(message, name), generator)})
    kind = int(generator.integers(3))
    own = Signer(generator.bytes(32))
    line.frame = [with_signature_of(line.frame, changed), encode(changed), encode(changed, own)][kind]


def edit_column(draft: Draft, generator: Generator) -> None:
    """One user's reply for another that is as possible."""
    replies = [each for each in draft.lines if isinstance(decode(each.frame), Replies)]
    line = choice(generator, replies)
    message = decode(line.frame)
    assert isinstance(message, Replies)
    name = choice(generator, sorted(message.columns))
    columns = {**message.columns, name: np.roll(message.columns[name], 1, axis=0)}
    line.frame = with_signature_of(line.frame, replace(message, columns=columns))


def edit_frame(draft: Draft, generator: Generator) -> None:
    """Some bytes of a frame, with a checksum that fits."""
    line = choice(generator, draft.lines)
    body = bytearray(line.frame[:-4])
    for _ in range(int(generator.integers(1, 4))):
        body[int(generator.integers(len(body)))] = int(generator.integers(256))
    line.frame = bytes(body) + zlib.crc32(body).to_bytes(4, "little")


def edit_signature(draft: Draft, generator: Generator) -> None:
    """No signature, another's, or one with a bit changed."""
    line, other = choice(generator, draft.lines), choice(generator, draft.lines)
    message = decode(line.frame)
    flipped = bytearray(line.frame[:-4])
    flipped[-1 - int(generator.integers(SIGNATURE_BYTES))] ^= 1
    made = [encode(message), with_signature_of(other.frame, message)]
    made.append(bytes(flipped) + zlib.crc32(flipped).to_bytes(4, "little"))
    line.frame = choice(generator, made)


def edit_sender(draft: Draft, generator: Generator) -> None:
    """Who sent a message."""
    choice(generator, draft.lines).sender = choice(generator, ("board", "analyst", "launcher", "node-0", "node-1", "x"))


def edit_time(draft: Draft, generator: Generator) -> None:
    """When a message came: a little or much earlier or later."""
    line = choice(generator, draft.lines)
    line.time_ns = max(0, line.time_ns + choice(generator, (-1, 1, -(10**6), 10**9, -(10**15))))


def edit_order(draft: Draft, generator: Generator) -> None:
    """A message goes, comes twice, or changes places with another."""
    place, other = (int(generator.integers(len(draft.lines))) for _ in range(2))
    kind = int(generator.integers(4))
    if kind == 0:
        del draft.lines[place]
    elif kind == 1:
        draft.lines.insert(other, replace(draft.lines[place]))
    elif kind == 2:
        draft.lines[place], draft.lines[other] = draft.lines[other], draft.lines[place]
    else:
        del draft.lines[max(1, place) :]


def edit_insertion(draft: Draft, generator: Generator) -> None:
    """An event that never happened, which nobody would have signed."""
    node = choice(generator, ("launcher", "node-0"))
    event = Event(event="drop", node=node, round=1, detail=choice(generator, TEXTS))
    line = choice(generator, draft.lines)
    draft.lines.insert(int(generator.integers(len(draft.lines))), Line(line.time_ns, node, encode(event)))


def edit_end(draft: Draft, generator: Generator) -> None:
    """What the closing record says, or that it is signed."""
    name = choice(generator, sorted(draft.end))
    changed = choice(generator, ("failed", "aborted")) if name == "outcome" else other_value(draft.end[name], generator)
    draft.end[name] = changed


def edit_header(draft: Draft, generator: Generator) -> None:
    """Another run's name, or something that nobody wrote."""
    draft.header = choice(
        generator, ({"run": "another"}, {**draft.header, "created": 5}, {**draft.header, "software": "x"})
    )


EDITORS: tuple[Callable[[Draft, Generator], None], ...] = (
    edit_field,
    edit_field,
    edit_field,
    edit_column,
    edit_frame,
    edit_signature,
    edit_sender,
    edit_time,
    edit_order,
    edit_insertion,
    edit_end,
    edit_header,
)


@dataclass(frozen=True)
class Honest:
    """An honest signed run: its record and its keys."""

    path: Path
    protocol: Protocol
    keys: dict[str, bytes]
    draft: Draft

    @classmethod
    def make(cls, folder: Path, name: str) -> "Honest":
        protocol = design(name, Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
        inputs = np.random.default_rng(5).integers(0, protocol.inputs, USERS)
        signers = signers_for(KEY, NODES)
        place = folder / name
        place.mkdir()
        said = honest_words(protocol, inputs, KEY, nodes=NODES, chunk=CHUNK)
        path = write_signed(place / "transcript.parley", said, signers)
        write_trust(place / "trust.toml", public_keys(signers))
        return cls(path, protocol, public_keys(signers), Draft.read(path))

    def audit(self, path: Path) -> Report:
        """What `parley audit` finds with the keys of the honest run."""
        return audit(path, build, keys=self.keys)

    def edited(self, generator: Generator) -> bytes:
        """A forgery: one to three edits; never the honest record itself."""
        original = self.path.read_bytes()
        while True:
            draft = self.draft.copy()
            with contextlib.suppress(ParleyError, ValueError, TypeError, OverflowError, IndexError):
                for _ in range(choice(generator, (1, 1, 2, 3))):
                    with np.errstate(all="ignore"):
                        choice(generator, EDITORS)(draft, generator)
                content = draft.bytes(heads=bool(generator.random() < 0.7))
                if content != original:
                    return content

    def resigned(self, seed: int, path: Path) -> None:
        """The same words under other keys: of everybody, or of all but the nodes, the analyst or the board."""
        mine, theirs = signers_for(KEY, NODES), signers_for(key_from_seed(1000 + seed), NODES)
        kept = (("analyst",), ("board",), ("analyst", "board"), tuple(f"node-{n}" for n in range(NODES)), ())[seed % 5]
        # A forger may hold the keys of a few; without those of all the others the record must not pass.
        signers = {**theirs, **{name: mine[name] for name in kept}}
        words = list(other_replies(words_of(self.path), seed)) if seed % 2 else words_of(self.path)
        write_signed(path, self.concluded(words), signers)

    def concluded(self, words: list[tuple[str, Message]]) -> Iterator[tuple[str, Message]]:
        """The words with the analyst's own worked out anew from the replies, as far as users still take them."""
        role = AnalystRole(self.protocol, RUN)
        with one_thread():
            for sender, message in words:
                said = role.pending[0] if role.pending and isinstance(message, Announce | Result) else message
                changed = said if type(said) is type(message) else message
                yield sender, changed
                role.hear(changed)

    def lie(self, seed: int, path: Path) -> None:
        """All replies exchanged, the result worked out anew, hashes and heads made to fit, old signatures kept."""
        words = list(self.concluded(list(other_replies(words_of(self.path), seed))))
        draft = self.draft.copy()
        for line, (_, message) in zip(draft.lines, words, strict=True):
            if encode(message) != encode(decode(line.frame)):
                line.frame = with_signature_of(line.frame, message)
        path.write_bytes(draft.bytes(heads=True))


def commands(path: Path, honest: Path, folder: Path) -> list[list[str]]:
    """Every command that reads a record."""
    return [
        ["show", str(path)],
        ["audit", str(path), "--trust", str(honest.with_name("trust.toml")), "--quiet"],
        ["audit", str(path), "--against", str(honest)],
        ["replay", str(path)],
        ["report", str(path), "--out", str(folder / "page.html")],
        ["export", str(path), "--out", str(folder / "rows.jsonl")],
        ["diff", str(path), str(honest)],
    ]


def fell(arguments: list[str]) -> str:
    """The traceback of a command that fell; empty where it ended with an exit code."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = run(arguments)
        except Exception:  # noqa: BLE001, whatever falls out of a command is what is looked for here
            return traceback.format_exc()
    return "" if code in CODES and "Traceback" not in said.getvalue() else said.getvalue()


@dataclass
class Tried:
    """What came of all forgeries."""

    verdicts: Counter[tuple[str, str]]
    missed: list[str]
    fallen: list[str]
    count: int = 0

    def take(self, what: str, report: Report, kept: Path) -> None:
        """Count one audit; a forgery that passes is a miss, and its file is kept."""
        self.count += 1
        for name, verdict in report.verdicts.items():
            self.verdicts[name, verdict.verdict] += 1
        if report.ok or report.verdicts["authorship"].verdict == "pass":
            place = Path(tempfile.mkdtemp(prefix="parley-forgery-")) / "missed.parley"
            (shutil.copytree if kept.is_dir() else shutil.copyfile)(kept, place)
            self.missed.append(f"{what} passes; it is kept in {place}")


def try_commands(wanted: Sequence[list[str]], folder: Path, tried: Tried) -> None:
    """Run commands on a forgery."""
    for arguments in wanted:
        trace = fell(arguments)
        tried.fallen += [f"{' '.join(arguments)}: {trace}"] if trace else []
        (folder / "rows.jsonl").unlink(missing_ok=True)


def forge(edits: int, resigned: int, seed: int, folder: Path, *, every_command: bool) -> Tried:
    """Make and audit all forgeries, and run on each every command that reads a record, or one in turn."""
    generator = np.random.default_rng(seed)
    tried = Tried(Counter(), [], [])
    path = folder / "forged.parley"
    with one_thread():
        runs = [Honest.make(folder, name) for name in PROTOCOLS]
    for honest in runs:
        report = honest.audit(honest.path)
        assert report.ok, report.record()
        assert report.verdicts["authorship"].verdict == "pass"
    for number in range(edits):
        honest = runs[number % len(runs)]
        path.write_bytes(honest.edited(generator))
        tried.take(f"edit {number} of {honest.protocol.name}", honest.audit(path), path)
        wanted = commands(path, honest.path, folder)
        try_commands(wanted if every_command else [wanted[number % len(wanted)]], folder, tried)
    for number in range(resigned):
        honest = runs[number % len(runs)]
        path.unlink(missing_ok=True)
        honest.resigned(number, path)
        tried.take(f"re-signed {number} of {honest.protocol.name}", honest.audit(path), path)
        path.unlink()
        honest.lie(number, path)
        tried.take(f"lie {number} of {honest.protocol.name}", honest.audit(path), path)
        if every_command:
            try_commands(commands(path, honest.path, folder), folder, tried)
    return tried


@click.command()
@click.option("--edits", default=2000, show_default=True, help="Random edits.")
@click.option("--resigned", default=200, show_default=True, help="Records under other keys, and as many lies.")
@click.option("--seed", default=1, show_default=True, help="Where chance starts.")
def main(edits: int, resigned: int, seed: int) -> None:
    """Forge, audit, count."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tried = forge(edits, resigned, seed, Path(folder), every_command=True)
    names = dict.fromkeys(name for name, _ in tried.verdicts)
    click.echo(f"{tried.count} forgeries in {time.perf_counter() - began:.0f} s")
    for name in names:
        counts = ", ".join(f"{tried.verdicts[name, each]} {each}" for each in ("fail", "unknown", "pass"))
        click.echo(f"{name.replace('_', ' '):<13} {counts}")
    for problem in [*tried.missed, *tried.fallen]:
        click.echo(problem, err=True)
    click.echo(f"{len(tried.missed)} passed, {len(tried.fallen)} ended in a traceback")
    sys.exit(bool(tried.missed or tried.fallen))


if __name__ == "__main__":
    main()
