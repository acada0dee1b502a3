"""A board that comes back after a crash: its old record and its old ports."""

import asyncio
import time
from pathlib import Path
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.transport.addresses import BoardAddresses, descriptors_for, pace_for, raise_file_limit
from parley.emulator.transport.zmq.ports import ZmqBoardPort, open_board
from parley.emulator.wire.security import Security

REBIND_SECONDS = 10.0


def open_record(transcript: Path, run: str, **header: Any) -> TranscriptWriter | None:
    """The record of this run: new, continued after a crash, or None where it is closed already."""
    if transcript.exists() and transcript.stat().st_size == 0:
        # A board that was killed before its first byte has said nothing to anybody.
        transcript.unlink()
    if not transcript.exists():
        return TranscriptWriter.create(transcript, run, **header)
    reader = TranscriptReader(transcript)
    reader.verify()
    if reader.run != run:
        raise BadInput(f"{transcript} is the record of run {reader.run}, not of {run}")
    return None if reader.closing is not None else TranscriptWriter.resume(transcript)


async def bind(wanted: BoardAddresses, security: Security | None, *, again: bool, peers: int) -> ZmqBoardPort:
    """A board's port with room for so many peers; if it comes back, it may have to wait for its old ports."""
    raise_file_limit(descriptors_for(peers))
    until = time.monotonic() + (REBIND_SECONDS if again else 0.0)
    while True:
        try:
            return open_board(wanted, security, pace=pace_for(peers))
        except BadInput:
            if time.monotonic() >= until:
                raise
            await asyncio.sleep(0.1)
