"""A peer that sends without end: `python -m tests.nodes.endless HOW ADDRESS MEBIBYTES [OWN_KEYS SERVER_KEY]`.

It sends so much in one message of many parts, or where it may only listen, and ends when all is sent or it was hung up
on. Without keys it speaks ZMTP itself, so that parts leave at once; with keys it lets libzmq, which sends a message
when its last part is known, and all its parts are one block of memory.
"""

import socket
import struct
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

import zmq

from parley.emulator.wire.security import read_keys

MEBIBYTE = 2**20
MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(content: bytes, flags: int) -> bytes:
    if len(content) < 256:
        return struct.pack(">BB", flags, len(content)) + content
    return struct.pack(">BQ", flags | LONG, len(content)) + content


def greet(peer: socket.socket, kind: bytes) -> None:
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    peer.sendall(GREETING + frame(ready, COMMAND))
    heard = b""
    while len(heard) <= len(GREETING):
        # Its greeting and the beginning of its own READY: what came before would break the handshake off.
        heard += peer.recv(4096) or b"\0" * len(GREETING)


def topics() -> bytes:
    return b"".join(frame(b"\1" + number.to_bytes(60, "little"), 0) for number in range(MEBIBYTE // 63))


# What a peer says it is, and about a mebibyte of what it says.
RAW: dict[str, tuple[bytes, Callable[[], bytes]]] = {
    "parts": (b"PUSH", lambda: frame(bytes(32 * MEBIBYTE), MORE)),
    "small-parts": (b"PUSH", lambda: frame(b"", MORE) * (MEBIBYTE // 2)),
    "topics": (b"SUB", topics),
    "topic": (b"SUB", lambda: frame(b"\1" + bytes(MEBIBYTE), 0)),
    "subscriber-parts": (b"XSUB", lambda: frame(b"\2" * 200, MORE) * (MEBIBYTE // 202)),
    "whole-at-the-delivery": (b"PULL", lambda: frame(bytes(200), 0) * (MEBIBYTE // 202)),
    "at-the-delivery": (b"PULL", lambda: frame(bytes(200), MORE) * (MEBIBYTE // 202)),
}


def send_raw(how: str, address: str, size: int) -> None:
    kind, say = RAW[how]
    host, port = address.removeprefix("tcp://").split(":")
    block, sent = say(), 0
    with socket.create_connection((host, int(port))) as peer:
        greet(peer, kind)
        while sent < size * MEBIBYTE:
            peer.sendall(block)
            sent += len(block)


def send_sealed(address: str, size: int, keys: Path, server: str) -> None:
    context = zmq.Context()
    peer = context.socket(zmq.PUSH)
    peer.setsockopt(zmq.SNDTIMEO, 10_000)
    peer.setsockopt(zmq.LINGER, 10_000)
    own = read_keys(keys)
    peer.curve_publickey, peer.curve_secretkey = own.public.encode(), own.secret.encode()
    peer.curve_serverkey = server.encode()
    peer.connect(address)
    block = bytes(32 * MEBIBYTE)
    for number in count(1):
        last = number * len(block) >= size * MEBIBYTE
        peer.send(block, 0 if last else zmq.SNDMORE, copy=False)
        if last:
            break
    peer.close()
    context.term()


def main(how: str, address: str, size: str, *keys: str) -> None:
    try:
        if keys:
            send_sealed(address, int(size), Path(keys[0]), keys[1])
        else:
            send_raw(how, address, int(size))
    except ConnectionError:
        print("hung up on")


if __name__ == "__main__":
    main(*sys.argv[1:])
