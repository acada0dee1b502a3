"""A signed record without processes: the roles of a run in memory, their words signed and written down."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from parley.emulator.audit.authorship import author_of
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Close, Message, Outcome, Ready, Replies, Roster
from parley.emulator.wire.signatures import Signer, derived

Said = tuple[str, Message]
RUN = "signed"
FIRST_NS = 1_700_000_000 * 10**9
"""When the first record was written; each further one comes a millisecond later."""


def signers_for(key: bytes, nodes: int, others: Iterable[str] = ()) -> dict[str, Signer]:
    """A signing key for each party, from one secret."""
    names = (ANALYST_NAME, BOARD_NAME, *others, *(f"node-{number}" for number in range(nodes)))
    return {name: derived(key, name) for name in names}


def public_keys(signers: Mapping[str, Signer]) -> dict[str, bytes]:
    """What a reader must know of them."""
    return {name: signer.public for name, signer in signers.items()}


def honest_words(protocol: Protocol, inputs: Inputs, key: bytes, *, nodes: int, chunk: int) -> Iterator[Said]:
    """What is said in an honest run."""
    return conversation(protocol, inputs, key, run=RUN, nodes=nodes, chunk=chunk)


def frames(said: Iterable[Said], signers: Mapping[str, Signer], writer: TranscriptWriter) -> bytes:
    """Append each word signed by who says it, heads included; the nonce of the run."""
    nonce = b""
    for number, (sender, each) in enumerate(said):
        message, author = each, author_of(sender, each)
        if isinstance(message, Roster):
            nonce = message.nonce
        elif isinstance(message, Ready):
            message = replace(message, key=signers[message.node].public)
        elif isinstance(message, Close):
            message = replace(message, size=len(writer.tree), root=writer.tree.root())
        frame = encode(message, None if author is None else signers[author], nonce)
        writer.append(sender, frame, FIRST_NS + 10**6 * number)
    return nonce


def write_signed(
    path: Path,
    said: Iterable[Said],
    signers: Mapping[str, Signer],
    *,
    run: str = RUN,
    outcome: Outcome = "completed",
    closed_by: str | None = BOARD_NAME,
) -> Path:
    """A whole signed record; `closed_by` nobody, as a launcher does after a crash."""
    words = list(said)
    last = words[-1][1]
    reason = last.reason if isinstance(last, Abort) else ""
    with TranscriptWriter.create(path, run) as writer:
        nonce = frames(words, signers, writer)
        writer.close(outcome, reason, None if closed_by is None else signers[closed_by], nonce)
    return path


def words_of(path: Path) -> list[Said]:
    """Who said what, read back."""
    return [(record.sender, record.message) for record in TranscriptReader(path)]


def other_replies(said: Iterable[Said], seed: int) -> Iterator[Said]:
    """Every reply exchanged for one that another user sent in the same frame: all are possible, all are lies."""
    generator = np.random.default_rng(seed)
    for sender, message in said:
        if isinstance(message, Replies) and len(message.users) > 1:
            order = np.roll(np.arange(len(message.users)), int(generator.integers(1, len(message.users))))
            columns = {name: column[order] for name, column in message.columns.items()}
            yield sender, replace(message, columns=columns)
        else:
            yield sender, message
