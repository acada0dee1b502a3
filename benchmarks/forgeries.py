"""Records that somebody without keys has changed after the run, as well as that can be done."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.protocol import Protocol
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Close, Message, Replies, Result, Roster, Setup
from parley.emulator.wire.signatures import SECRET_BYTES, Signer

FORGERIES = ("replies replaced", "broadcast swapped", "users re-labelled")


def forge(kind: str, transcript: Path, target: Path, protocol: Protocol, generator: np.random.Generator) -> str:
    """Write the forged record; what the audit must name. Everything that can be made to fit fits."""
    records = list(TranscriptReader(transcript))
    spoken = [each.message for each in records if isinstance(each.message, Replies) and len(each.message.users) > 1]
    asked = [each.message for each in records if isinstance(each.message, Announce)]
    if kind == "broadcast swapped":
        announce = asked[int(generator.integers(len(asked)))]
        mirrored = {name: np.negative(array) for name, array in announce.broadcast.items()}
        other = replace(announce, broadcast=mirrored, speakers=announce.speakers + (not mirrored))
        _write(records, target, protocol, {id(announce): other}, retell=False)
        return f"broadcast of round {announce.round}"
    replies = spoken[int(generator.integers(len(spoken)))]
    people = len(replies.users)
    swap, shift, repeat = np.r_[1, 0, np.arange(2, people)], np.roll(np.arange(people), 1), np.zeros(people, dtype=int)
    orders = (swap, shift, repeat) if kind == "users re-labelled" else (shift, repeat)
    candidates = [replace(replies, columns=_in_order(replies, order)) for order in orders]
    shorter = replace(replies, users=replies.users[1:], columns=_in_order(replies, np.arange(1, people)))
    # Replies may be equal: then somebody is left out.
    false = next((each for each in candidates if encode(each) != encode(replies)), shorter)
    _write(records, target, protocol, {id(replies): false}, retell=True)
    return f"reply of {replies.node} in round {replies.round}"


def _in_order(replies: Replies, order: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    return {name: column[order] for name, column in replies.columns.items()}


def _write(
    records: list[Record], target: Path, protocol: Protocol, changed: dict[int, Message], *, retell: bool
) -> None:
    """The record with these messages in the place of others, the analyst's words and all hashes made to fit.

    The forger signs what it changed with a key of its own.
    """
    signer, nonce = Signer(secrets.token_bytes(SECRET_BYTES)), b""
    setup = next(each.message for each in records if isinstance(each.message, Setup))
    analyst = AnalystRole(protocol, setup.run, setup.domain)
    with TranscriptWriter.create(target, setup.run) as writer:
        for record in records:
            message = changed.get(id(record.message), record.message)
            nonce = message.nonce if isinstance(message, Roster) else nonce
            if isinstance(message, Close):
                message = replace(message, size=len(writer.tree), root=writer.tree.root())
            if retell:
                if isinstance(message, Setup | Announce | Result) and analyst.pending:
                    message = analyst.pending[0]
                analyst.hear(message)
            same = encode(message) == encode(record.message)
            writer.append(record.sender, record.frame if same else encode(message, signer, nonce), record.time_ns)
        writer.close("completed", "", signer, nonce)


def all_forgeries(
    transcript: Path, folder: Path, protocol: Protocol, generator: np.random.Generator
) -> Iterator[tuple[Path, str]]:
    """A forgery of each kind: where it is, and what the audit must name."""
    for kind in FORGERIES:
        target = folder / f"{kind.split()[0]}.parley"
        yield target, forge(kind, transcript, target, protocol, generator)
