"""What benchmarks/fuzz.py throws bytes at. A target returns, or raises what nobody may cause from outside."""

import asyncio
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from parley.emulator.audit.integrity import check_integrity
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput, ParleyError, RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole, Said
from parley.emulator.roles.consent import consent_to
from parley.emulator.roles.node_memory import Answered, Evidence
from parley.emulator.simulate import conversation
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.transport.ports import Received
from parley.emulator.wire.codec import decode, encode, envelope, is_signed, open_envelope
from parley.emulator.wire.messages import Abort, Inquiry, Replies
from parley.emulator.wire.signatures import SIGNATURE_BYTES
from parley.nodes.board import BoardNode
from parley.nodes.state.reopen import open_record
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity

RUN, KEY = "fuzzed", key_from_seed(1)
INPUTS = np.arange(6, dtype=np.int64) % 3
SENDERS = (None, "node-0", "node-1", "analyst", "board", "launcher")
MOST_FRAMES = 24


def spoken() -> Protocol:
    """A small protocol with three rounds."""
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=len(INPUTS))


def honest() -> list[tuple[str, bytes]]:
    """The frames of an honest conversation with their senders, to start from."""
    return [(sender, encode(message)) for sender, message in conversation(spoken(), INPUTS, KEY, run=RUN, nodes=2)]


def sealed(body: bytes) -> bytes:
    """With the checksum it should have: bytes that only fail at their last four are of no use."""
    return body + zlib.crc32(body).to_bytes(4, "little")


def frames_in(data: bytes) -> Iterator[tuple[str | None, bytes]]:
    """Data as a talk: a byte for the sender, two for the length, then the body of a frame."""
    for _ in range(MOST_FRAMES):
        if len(data) < 3:
            return
        size = int.from_bytes(data[1:3], "little")
        yield SENDERS[data[0] % len(SENDERS)], sealed(data[3 : 3 + size])
        data = data[3 + size :]


def as_talk(frames: list[tuple[str, bytes]]) -> bytes:
    """The reverse of `frames_in`."""
    return b"".join(
        bytes([SENDERS.index(sender)]) + (len(frame) - 4).to_bytes(2, "little") + frame[:-4] for sender, frame in frames
    )


def codec(data: bytes) -> None:
    """What decodes is the one encoding of what it decodes to."""
    frame = sealed(data)
    with suppress(RemoteProtocolError):
        message = decode(frame)
        assert encode(message) == (sealed(data[:-SIGNATURE_BYTES]) if is_signed(frame) else frame)
    with suppress(RemoteProtocolError):
        assert envelope(*open_envelope(frame)) == frame


def transcript(data: bytes) -> None:
    """A file is a transcript, or is said not to be one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.parley"
        path.write_bytes(data)
        with suppress(ParleyError):
            for record in TranscriptReader(path):
                _ = record.message
        check_integrity(path)


def board(data: bytes) -> None:
    """Whatever is said to a board, its record is one that an honest board writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.parley"
        asyncio.run(_talk(path, data))
        verdict = check_integrity(path)
        assert verdict.verdict == "pass", verdict


async def _talk(path: Path, data: bytes) -> None:
    role = BoardRole(Terms(run=RUN, users=len(INPUTS), nodes=2, quorum=0.1))
    # Enough listeners: the board would wait for them before it opens a round.
    transport = MemoryTransport()
    port, _ = transport.board(), [transport.node(f"node-{number}") for number in range(2)]
    node = BoardNode(role, port, open_record(path, RUN), path)
    for sender, frame in frames_in(data):
        if not role.over:
            await node.take(Received(frame, sender))
    if not role.over:
        await node.put(role.hear("board", role.abort("aborted", "enough"), 0.0))
    assert node.writer is not None
    ending = role.ending
    node.writer.close(*(ending.outcome, ending.reason) if isinstance(ending, Abort) else ("completed",))


def cohort(data: bytes) -> None:
    """Whatever a node hears, each user answers each round once, and only what is to be on disk before."""
    consent = consent_to(spoken(), RUN)
    role = CohortRole(node="node-0", first=0, inputs=INPUTS, key=KEY, consent=consent, build=build)
    answered, given = dict[int, bytes](), dict[int, bytes]()
    for _, frame in frames_in(data):
        with suppress(RemoteProtocolError, BadInput):
            for said in role.hear(decode(frame)):
                _note(said, answered, given)


def _note(said: Said, answered: dict[int, bytes], given: dict[int, bytes]) -> None:
    assert not isinstance(said, Evidence | Inquiry), "nobody signs here, so there is nothing to ask for"
    if isinstance(said, Answered):
        assert said.round == len(answered) + 1
        answered[said.round] = said.question
    elif isinstance(said, Replies):
        assert answered[said.round] == said.question
        assert given.setdefault(said.round, encode(said)) == encode(said)


def written() -> bytes:
    """A whole transcript."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "transcript.parley"
        writer = TranscriptWriter.create(path, RUN)
        for sender, message in conversation(spoken(), INPUTS, KEY, run=RUN, nodes=2):
            writer.append(sender, encode(message), 0)
        writer.close("completed")
        return path.read_bytes()


TARGETS: dict[str, Callable[[bytes], None]] = {target.__name__: target for target in (codec, transcript, board, cohort)}


def seeds(target: str) -> list[bytes]:
    """What mutations start from."""
    frames = honest()
    spoken_to_the_board = [(sender, frame) for sender, frame in frames if sender != "board"]
    return {
        "codec": [frame[:-4] for _, frame in frames],
        "transcript": [written()],
        "board": [as_talk(spoken_to_the_board), as_talk(spoken_to_the_board[:5])],
        "cohort": [as_talk(frames)],
    }[target]
