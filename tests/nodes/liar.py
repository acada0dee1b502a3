"""A lying user node as a process: an honest one but for what it puts between itself and the board.

`python -m tests.nodes.liar ATTACK ...` takes the options of `parley node user`. ATTACK is a name of ATTACKS: it turns
the honest reply of the second round into the frames that are sent instead. It signs what it says: the lie is its own.
"""

import dataclasses
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import zmq

import parley.nodes.user
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.codec import decode, is_signed
from parley.emulator.wire.codec import encode as unsigned
from parley.emulator.wire.messages import Announce, Event, Message, Ready, Refusal, Replies, Result
from parley.emulator.wire.security import Security
from parley.emulator.wire.signatures import derived
from tests.nodes.table import KEY, NONCE

ROUND = 2
OVERSIZE = 2**30
Attack = Callable[[Replies], Iterator[bytes]]


SIGNER = derived(KEY, "node-0")


def encode(message: Message) -> bytes:
    """As the liar sends it."""
    return unsigned(message, SIGNER, NONCE)


def changed(replies: Replies) -> Replies:
    """The same reply with every value moved by one."""
    columns = {name: np.flip(column, axis=0) if len(column) else column for name, column in replies.columns.items()}
    return dataclasses.replace(replies, columns=columns)


def other_users(replies: Replies) -> Iterator[bytes]:
    yield encode(dataclasses.replace(replies, users=replies.users + len(replies.users)))
    yield encode(replies)


def another_name(replies: Replies) -> Iterator[bytes]:
    """The honest node answers later: with keys, nobody can have answered for it before."""
    users = replies.users + len(replies.users)
    yield encode(dataclasses.replace(changed(replies), node="node-1", users=users))
    yield encode(replies)


def twice(replies: Replies) -> Iterator[bytes]:
    half = len(replies.users) // 2
    first = {name: column[:half] for name, column in replies.columns.items()}
    second = {name: column[half:] for name, column in replies.columns.items()}
    part = dataclasses.replace(replies, chunks=2, users=replies.users[:half], columns=first)
    yield from (encode(part), encode(part), encode(changed(part)))
    # The users of the first chunk once more, in the second one.
    yield encode(dataclasses.replace(part, chunk=1))
    yield encode(dataclasses.replace(replies, chunks=2, chunk=1, users=replies.users[half:], columns=second))


def other_chunks(replies: Replies) -> Iterator[bytes]:
    yield encode(dataclasses.replace(replies, chunks=10**9))
    yield encode(dataclasses.replace(replies, run="another"))
    yield encode(dataclasses.replace(replies, node="nobody"))
    yield encode(replies)


def malformed(replies: Replies) -> Iterator[bytes]:
    frame = encode(replies)
    body = frame[:-4]
    spoiled = bytearray(body)
    spoiled[0] ^= 1
    yield from (b"", b"noise", bytes(1000), frame[:-1], frame[: len(frame) // 2], frame + b"\0")
    # With a checksum that is right, so that the bytes themselves are looked at.
    for wrong in (
        bytes(spoiled),
        body + b"\0",
        b"\xc1",
        b"\x91" * 500,
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
    ):
        yield wrong + zlib.crc32(wrong).to_bytes(4, "little")
    yield frame


def unwelcome(replies: Replies) -> Iterator[bytes]:
    """Messages that are none of a user node's business, or that name somebody who is not."""
    yield encode(Announce(run=replies.run, round=3, broadcast={}))
    yield encode(Result(run=replies.run, estimate=0.0, predicted_rmse=0.0, low=0.0, high=0.0, replied=0))
    yield encode(Ready(node=replies.node, first=0, users=2 * len(replies.users), pid=1))
    yield encode(Ready(node="analyst", first=0, users=1, pid=1))
    yield encode(Event(event="e", node="no name at all", round=0, detail=""))
    yield encode(Refusal(run=replies.run, round=1, node="node-1", reason="in its name"))
    yield encode(replies)


def out_of_range(replies: Replies) -> Iterator[bytes]:
    yield encode(dataclasses.replace(replies, columns={name: _wild(each) for name, each in replies.columns.items()}))


def _wild(column: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """The largest value the type can hold, for every second user."""
    found = column.copy()
    found[::2] = np.iinfo(column.dtype).max if column.dtype.kind in "iu" else 1e300
    return found


def other_columns(replies: Replies) -> Iterator[bytes]:
    yield encode(dataclasses.replace(replies, columns={"weight": np.full(len(replies.users), 10**6)}))


def one_gigabyte(replies: Replies) -> Iterator[bytes]:
    """What is too long for a port goes past it, see `LyingPort`; the honest reply follows."""
    yield encode(replies)


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        other_users,
        another_name,
        twice,
        other_chunks,
        malformed,
        unwelcome,
        out_of_range,
        other_columns,
        one_gigabyte,
    )
}


class LyingPort(NodePort):
    def __init__(self, attack: str, port: NodePort, board: BoardAddresses) -> None:
        self._attack, self._port, self._board = attack, port, board
        self._lied = False

    async def receive(self, timeout: float) -> list[bytes]:
        return await self._port.receive(timeout)

    async def send(self, frame: bytes) -> None:
        message: Message = decode(frame)
        assert is_signed(frame)
        if not isinstance(message, Replies) or message.round != ROUND:
            await self._port.send(frame)
            return
        if self._attack == "one_gigabyte" and not self._lied:
            send_one_gigabyte(self._board)
        self._lied = True
        for lie in ATTACKS[self._attack](message):
            await self._port.send(lie)

    def close(self) -> None:
        self._port.close()


def send_one_gigabyte(board: BoardAddresses) -> None:
    """Push a frame of a gibibyte until the board cuts the connection."""
    context = zmq.Context()
    socket, watcher = context.socket(zmq.PUSH), None
    try:
        socket.setsockopt(zmq.LINGER, 0)
        watcher = socket.get_monitor_socket(zmq.Event.DISCONNECTED)
        socket.connect(board.inbox)
        # Zeros that were never written take no memory here.
        socket.send(memoryview(np.zeros(OVERSIZE, dtype=np.uint8)), copy=False)
        assert watcher.poll(60_000), "the board took it"
    finally:
        socket.disable_monitor()
        if watcher is not None:
            watcher.close(0)
        socket.close(0)
        context.term()


def main(attack: str, options: list[str]) -> None:
    connect = parley.nodes.user.connect_node

    def lying(board: BoardAddresses, security: Security | None = None, **options: Any) -> LyingPort:
        return LyingPort(attack, connect(board, security, **options), board)

    parley.nodes.user.connect_node = lying  # type: ignore[assignment]
    parley.nodes.user.main(options)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
