"""A board that comes back after a crash: its old record and its old ports."""

import asyncio
import time
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.zmq.ports import ZmqBoardPort, open_board
from parley.emulator.wire.security import Security

REBIND_SECONDS = 10.0


def open_record(transcript: Path, run: str) -> TranscriptWriter | None:
    """The record of this run: new, continued after a crash, or None where it is closed already."""
    if transcript.exists() and transcript.stat().st_size == 0:
        # A board that was killed before its first byte has said nothing to anybody.
        transcript.unlink()
    if not transcript.exists():
        return TranscriptWriter.create(transcript, run)
    reader = TranscriptReader(transcript)
    reader.verify()
    if reader.run != run:
        raise BadInput(f"{transcript} is the record of run {reader.run}, not of {run}")
    return None if reader.closing is not None else TranscriptWriter.resume(transcript)


async def bind(wanted: BoardAddresses, security: Security | None, *, again: bool, pace: float = 1.0) -> ZmqBoardPort:
    """The board's port; a board that comes back may have to wait until its old ports are free."""
    until = time.monotonic() + (REBIND_SECONDS if again else 0.0)
    while True:
        try:
            return open_board(wanted, security, pace=pace)
        except BadInput:
            if time.monotonic() >= until:
                raise
            await asyncio.sleep(0.1)
