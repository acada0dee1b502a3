"""Transcripts to audit: runs in memory written down, and whole transcripts with something changed in them."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.reference.simulate_shuffled import shuffled_conversation
from parley.emulator.audit.report import Report, audit
from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Builder, Inputs, Protocol
from parley.emulator.record.conversation import Conversation, listen
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Message, Outcome
from parley.protocols.registry import build

RUN = "recorded"
KEY = key_from_seed(11)
Said = tuple[str, Message]
M = TypeVar("M", bound=Message)
Change = Callable[[list[Said]], Iterable[Said]]


def inputs_for(protocol: Protocol, users: int, seed: int = 5) -> Inputs:
    return np.random.default_rng(seed).integers(0, protocol.inputs, users)


def witness_of(inputs: Inputs) -> Witness:
    return Witness(run=RUN, key=KEY, inputs=inputs)


def write(path: Path, said: Iterable[Said], outcome: Outcome | None = "completed") -> Path:
    """A transcript with a chain of its own; without an outcome it is not closed."""
    reason = ""
    with TranscriptWriter.create(path, RUN) as writer:
        for number, (sender, message) in enumerate(said):
            writer.append(sender, encode(message), 10**9 + 10**6 * number)
            reason = message.reason if isinstance(message, Abort) else ""
        if outcome is not None:
            writer.close(outcome, reason)
    return path


def record(path: Path, protocol: Protocol, inputs: Inputs, *, nodes: int = 2, chunk: int = 4096) -> Path:
    """A run in memory as a transcript."""
    said = shuffled_conversation if protocol.claim.trusts == "shuffler" else conversation
    return write(path, said(protocol, inputs, KEY, run=RUN, nodes=nodes, chunk=chunk))


def said_in(path: Path) -> list[Said]:
    return [(each.sender, each.message) for each in TranscriptReader(path)]


def rewrite(path: Path, changed: Path, change: Change, outcome: Outcome | None = "completed") -> Path:
    """The same transcript with other messages and a chain that fits them: what a forger would hand out."""
    return write(changed, change(said_in(path)), outcome)


def audited(path: Path, inputs: Inputs | None = None, builder: Builder = build, **options: object) -> Report:
    """The audit, with fixed randomness."""
    return audit(
        path,
        builder,
        witness=None if inputs is None else witness_of(inputs),
        generator=np.random.default_rng(17),
        **options,  # type: ignore[arg-type]
    )


def heard(path: Path, builder: Builder = build) -> Conversation:
    return listen(path, builder)


def replace_first(kind: type[M], change: Callable[[M], Message], number: int = 0) -> Change:
    """A change of one message: the given one of its kind."""

    def apply(said: list[Said]) -> Iterator[Said]:
        seen = -1
        for sender, message in said:
            seen += isinstance(message, kind)
            if isinstance(message, kind) and seen == number:
                yield sender, change(message)
            else:
                yield sender, message

    return apply
