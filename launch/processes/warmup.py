"""A user node goes through a run before the first fork, so that nodes forked afterwards do nothing for the first time.

Modules are imported, tables are computed and caches are filled once, not once per process.
"""

import os
import socket
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import LocalProtocolError, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree, is_included, leaf_of
from parley.emulator.roles.consent import consent_to
from parley.emulator.simulate import conversation
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort, SendTimeout
from parley.emulator.transport.zmq.ports import connect_node
from parley.emulator.wire.codec import decode, encode, envelope, said_by
from parley.emulator.wire.messages import BROADCASTS, NOTICES, Close, Receipt
from parley.emulator.wire.signatures import SECRET_BYTES, Signer
from parley.launch.processes.system import die_with_parent
from parley.nodes.common import run_blocking
from parley.nodes.state.user_state import Identity, State
from parley.nodes.user import serve_user

RUN = "warmup"
# Enough that somebody answers in each round of a protocol that shares its users out among the rounds.
USERS = 64
# Python adapts its bytecode to what it meets, and is done with most of that after a few times.
TIMES = 3


def warm_up(protocol: Protocol) -> None:
    """Let a user node take part in a run of this protocol; nothing it says arrives anywhere."""
    frames = broadcasts_of(protocol)
    for _ in range(TIMES):
        # A protocol that fails will say so in the run itself.
        with suppress(ParleyError):
            take_part(protocol, frames)
        check_a_receipt()
        probe()


def broadcasts_of(protocol: Protocol) -> list[bytes]:
    """The broadcasts of a simulated run, frame by frame.

    The simulation has a process of its own, so that nodes do not carry what only an analyst needs.
    """
    parent, (reading, writing) = os.getpid(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            die_with_parent(parent)
            os.close(reading)
            with open(writing, "w") as out:
                # They may be too few for an estimate; what matters is what they were asked.
                for _, message in conversation(protocol, np.zeros(USERS, dtype=np.int64), bytes(KEY_BYTES), run=RUN):
                    if isinstance(message, BROADCASTS) and not isinstance(message, NOTICES):
                        print(encode(message).hex(), file=out)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as heard:
        frames = [bytes.fromhex(line) for line in heard]
    os.waitpid(child, 0)
    return frames


def take_part(protocol: Protocol, frames: list[bytes]) -> int:
    """Let a user node hear these broadcasts; its exit code."""
    key = bytes(KEY_BYTES)
    identity = Identity(
        node="nobody", first=0, users=USERS, consent=consent_to(protocol, RUN), coin_key=key, signing_key=key
    )
    with tempfile.TemporaryDirectory() as folder:
        State.create(Path(folder), identity, durable=False)
        with State(Path(folder), durable=False) as state:
            return run_blocking(serve_user(state, np.zeros(USERS, dtype=np.int64), lambda name: RecordedPort(frames)))


def check_a_receipt() -> None:
    """Sign and verify once: a library looks its algorithms up when they are first used."""
    signer, leaf = Signer(bytes(SECRET_BYTES)), leaf_of(0, 0, "nobody", bytes(32))
    tree = Tree()
    tree.append(leaf)
    close = Close(run=RUN, round=1, replies=1, missing=0, size=1, root=tree.root())
    frame = encode(close, signer)
    chunk: dict[str, Any] = {"chunks": (0,), "sequences": (0,), "times": (0,), "paths": (b"",)}
    decode(encode(Receipt(run=RUN, round=1, node="nobody", close=frame, before=0, consistency=b"", **chunk)))
    if not (said_by(signer.public, frame, decode(frame), b"") and is_included(leaf, 0, 1, (), tree.root())):
        raise LocalProtocolError("a signature of our own does not hold")


def probe() -> None:
    """Connect to an address where nobody listens, and leave: libzmq's threads are gone when this returns."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        board = BoardAddresses(inbox=address, feed=address, delivery=address)
        with closing(connect_node(board, blocking=True, patience=0.01)) as port:
            run_blocking(_send_in_vain(port))


async def _send_in_vain(port: NodePort) -> int:
    with suppress(SendTimeout):
        await port.send(b"")
    return len(await port.receive(0.0))


class RecordedPort(NodePort):
    """A port that receives these broadcasts, one after the other, and drops whatever is sent."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = iter(enumerate(frames))

    async def receive(self, timeout: float) -> list[bytes]:
        for number, frame in self._frames:
            return [envelope(number, "board", frame)]
        raise LocalProtocolError("the warm-up ended without a result")

    async def send(self, frame: bytes) -> None:
        pass

    def close(self) -> None:
        pass
