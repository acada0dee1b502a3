"""A user that does not exist goes through a run: whoever is forked afterwards has done everything once before."""

import os
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import LocalProtocolError, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.merkle import Tree, is_included, leaf_of
from parley.emulator.roles.consent import Consent, consent_to, domain_of
from parley.emulator.simulate import conversation
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.memory import NodePort, SendTimeout
from parley.emulator.transport.sockets import connect_node
from parley.emulator.wire.codec import decode, encode, envelope, said_by
from parley.emulator.wire.messages import BROADCASTS, NOTICES, Close, Receipt
from parley.emulator.wire.signatures import SECRET_BYTES, Signer
from parley.launch.processes.sharing import Code, code_run_by, code_run_by_child, fill_gaps, gather
from parley.launch.processes.system import die_with_parent
from parley.nodes.common import run_blocking
from parley.nodes.state.user_state import Identity, State
from parley.nodes.user import serve_user

LENGTH = struct.Struct("<I")
# Enough that somebody answers in each round of a protocol that shares its users out among the rounds.
USERS = 64
# Python notes in its bytecode what it met, and is done with most of that after a few times.
TIMES = 3

Birth = Callable[[dict[str, Any]], Callable[[], NoReturn]]


def warm_up(protocol: Protocol, birth: Birth) -> None:
    """Speak a run with nobody there, and put the code that takes side by side. `birth`: what a child will do."""
    frames = overhear(protocol)

    def play() -> None:
        # A protocol that fails will say so in the run itself.
        with suppress(ParleyError):
            take_part(protocol, frames)
        check_a_receipt()
        with nobody_there() as address:
            knock(address)

    code = code_run_by(play) | code_run_by_pioneer(birth)
    fill_gaps()
    gather(code)
    for _ in range(TIMES):
        play()


def code_run_by_pioneer(birth: Birth) -> Code:
    """What a user node runs from its birth until it looks for its board, in vain."""
    with tempfile.TemporaryDirectory() as folder, nobody_there() as address:
        inputs = Path(folder) / "inputs.npy"
        np.save(inputs, np.zeros(1, dtype=np.int64))
        board = {"--inbox": address, "--feed": address, "--delivery": address}
        State.create(Path(folder) / "state", nobody(), durable=False)
        options = {**board, "--inputs": inputs, "--state": Path(folder) / "state"}
        arguments = [str(word) for option in options.items() for word in option]
        request = {"request": "spawn", "node": "user", "arguments": arguments, "log": os.devnull, "niceness": 0}
        return code_run_by_child(birth(request))


class Stage(NodePort):
    """A port at which these broadcasts are heard, one after the other, and nothing that is sent arrives."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = iter(enumerate(frames))

    async def receive(self, timeout: float) -> list[bytes]:
        for number, frame in self._frames:
            return [envelope(number, "board", frame)]
        raise LocalProtocolError("a rehearsal ended without a result")

    async def send(self, frame: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def overhear(protocol: Protocol) -> list[bytes]:
    """The broadcasts of a run in memory, frame by frame. It takes place in a process of its own, so that what only an
    analyst needs is not carried, and copied, by every node."""
    parent, (reading, writing) = os.getpid(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            die_with_parent(parent)
            os.close(reading)
            with open(writing, "wb") as out:
                # They may be too few for an estimate; what matters is what they were asked.
                for _, message in conversation(protocol, np.zeros(USERS, dtype=np.int64), bytes(KEY_BYTES)):
                    if isinstance(message, BROADCASTS) and not isinstance(message, NOTICES):
                        frame = encode(message)
                        out.write(LENGTH.pack(len(frame)) + frame)
        finally:
            os._exit(0)
    os.close(writing)
    frames = []
    with open(reading, "rb") as heard:
        while head := heard.read(LENGTH.size):
            frames.append(heard.read(LENGTH.unpack(head)[0]))
    os.waitpid(child, 0)
    return frames


def nobody(protocol: Protocol | None = None, run: str = "simulated") -> Identity:
    """A node without people, who agree to this protocol; without one, to nothing."""
    consent = Consent(run=run, domain=domain_of(1), cap=0.0) if protocol is None else consent_to(protocol, run)
    key = bytes(KEY_BYTES)
    users = 1 if protocol is None else USERS
    return Identity(node="nobody", first=0, users=users, consent=consent, coin_key=key, signing_key=key)


def take_part(protocol: Protocol, frames: list[bytes]) -> int:
    """Let a user node hear these broadcasts and answer them to nobody; its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        State.create(Path(folder), nobody(protocol), durable=False)
        with State(Path(folder), durable=False) as state:
            return run_blocking(serve_user(state, np.zeros(USERS, dtype=np.int64), lambda name: Stage(frames)))


def check_a_receipt() -> None:
    """Sign and verify once: a library looks its algorithms up when they are first used."""
    signer, run, leaf = Signer(bytes(SECRET_BYTES)), "simulated", leaf_of(0, 0, "nobody", bytes(32))
    tree = Tree()
    tree.append(leaf)
    close = Close(run=run, round=1, replies=1, missing=0, size=1, root=tree.root())
    frame = encode(close, signer)
    receipt = Receipt(
        run=run,
        round=1,
        node="nobody",
        close=frame,
        chunks=(0,),
        sequences=(0,),
        times=(0,),
        paths=(b"",),
        before=0,
        consistency=b"",
    )
    decode(encode(receipt))
    if not (said_by(signer.public, frame, decode(frame), b"") and is_included(leaf, 0, 1, (), tree.root())):
        raise LocalProtocolError("a signature of our own does not hold")


def knock(address: str) -> None:
    """Connect and leave: libzmq's threads are gone when this returns."""
    port = connect_node(BoardAddresses(inbox=address, feed=address, delivery=address), blocking=True, patience=0.01)
    try:
        run_blocking(_knock(port))
    finally:
        port.close()


async def _knock(port: NodePort) -> int:
    with suppress(SendTimeout):
        await port.send(b"")
    return len(await port.receive(0.0))


@contextmanager
def nobody_there() -> Iterator[str]:
    """An address of this machine that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{taken.getsockname()[1]}"
