"""What foreign_node.py needs of docs/wire.md and docs/transcript.md: values, frames, digests, proofs, its
state, its sockets.

Plain Python, for reading rather than for speed, and not one import from Parley.
"""

import fcntl
import hashlib
import math
import os
import struct
import tomllib
import zlib
from pathlib import Path

import msgpack
import numpy as np
import zmq
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DTYPES = ("|u1", "<u2", "<u4", "<u8", "|i1", "<i2", "<i4", "<i8", "<f4", "<f8", "|b1")
# The kinds in the order of their tags, each with its fields and their types.
KINDS = {
    "ready": "node:str first:int users:int pid:int run:str key:bytes",
    "roster": "run:str nodes:int users:int nonce:bytes",
    "setup": "run:str protocol:str parameters:dict epsilon:float delta:float rounds:int version:int domain:dict "
    "nonce:bytes",
    "announce": "run:str round:int broadcast:dict speakers:int",
    "replies": "run:str round:int node:str chunk:int chunks:int users:list columns:dict question:bytes",
    "refusal": "run:str round:int node:str reason:str",
    "close": "run:str round:int replies:int missing:int absent:list size:int root:bytes",
    "result": "run:str estimate:float predicted_rmse:float low:float high:float replied:int details:dict",
    "abort": "run:str outcome:str reason:str nonce:bytes",
    "reminder": "run:str round:int missing:dict",
    "resume": "sequence:int count:int",
    "event": "event:str node:str round:int detail:str",
    "receipt": "run:str round:int node:str close:bytes chunks:list sequences:list times:list paths:list before:int "
    "consistency:bytes",
    "inquiry": "run:str round:int node:str",
    "pledge": "run:str setup:bytes",
    "seating": "run:str node:str key:bytes nonce:bytes",
    "shard": "run:str node:str stretches:ndarray pid:int roster:bytes key:bytes",
    "tally": "run:str round:int node:str replies:int sums:dict rejected:dict silent:int close:bytes question:bytes",
    "tie": "run:str round:int node:str tally:bytes receipt:bytes",
}


# Whose signature counts, by the name of the key in a consent (transcript.md, "Signatures").
AUTHORS = {
    "setup": ("analyst",),
    "announce": ("analyst",),
    "result": ("analyst",),
    "abort": ("board", "analyst"),
    "seating": ("board",),
}
CARRY_A_NONCE = ("setup", "abort", "seating")


class Refused(ValueError):
    """This node does not go along; the reason goes on record where it is about a setup or a broadcast."""


# Values and frames (transcript.md, "Values" and "Frames").


def pack(value):
    def plain(each):
        if isinstance(each, np.ndarray):
            head = struct.pack(f"<BB{each.ndim}I", DTYPES.index(each.dtype.str), each.ndim, *each.shape)
            return msgpack.ExtType(1, head + each.tobytes())
        if isinstance(each, dict):
            return {name: plain(each[name]) for name in sorted(each)}
        if isinstance(each, list | tuple):
            return [plain(item) for item in each]
        if each is not None and type(each) not in (bool, int, float, str, bytes):
            raise Refused(f"a {type(each).__name__} is not a value")
        if isinstance(each, float) and not math.isfinite(each):
            raise Refused("a number that is not finite")
        return each

    return msgpack.packb(plain(value), use_bin_type=True)


def unpack(body):
    """A value in its one spelling: whatever is not what `pack` would write is refused."""

    def array(code, data):
        shape = struct.unpack_from(f"<{data[1]}I", data, 2)
        if code != 1 or data[1] > 3 or (data[0] == 10 and max(data[2 + 4 * data[1] :], default=0) > 1):
            raise Refused("an extension that is not an array")
        return np.frombuffer(data, DTYPES[data[0]], offset=2 + 4 * data[1]).reshape(shape)

    try:
        value = msgpack.unpackb(body, ext_hook=array, raw=False)
        if pack(value) != body:
            raise Refused("a value that is not in its one spelling")
    except (ValueError, TypeError, IndexError, struct.error, msgpack.UnpackException) as error:
        raise Refused(f"bytes that are not a value: {error}") from error
    return value


def summed(body):
    return body + zlib.crc32(body).to_bytes(4, "little")


def unsummed(frame):
    if len(frame) < 5 or zlib.crc32(frame[:-4]) != int.from_bytes(frame[-4:], "little"):
        raise Refused("a frame whose checksum is wrong")
    return frame[:-4]


def covered(kind, nonce, body):
    return b"parley/2" + bytes([len(kind)]) + kind.encode() + bytes([len(nonce)]) + nonce + body


def encode(kind, fields, key=None, nonce=b""):
    body = pack([list(KINDS).index(kind), *(fields[each.split(":")[0]] for each in KINDS[kind].split())])
    return summed(body + (b"" if key is None else key.sign(covered(kind, nonce, body))))


def decode(frame):
    """(kind, fields, body, signature)"""
    content = unsummed(frame)
    reader = msgpack.Unpacker(strict_map_key=False, raw=True)
    reader.feed(content)
    try:
        reader.skip()
    except (ValueError, msgpack.UnpackException) as error:
        raise Refused(f"a frame without a value: {error}") from error
    body, signature = content[: reader.tell()], content[reader.tell() :]
    value = unpack(body)
    tag, *values = value if isinstance(value, list) and value else [None]
    if type(tag) is not int or not 0 <= tag < len(KINDS) or len(signature) not in (0, 64):
        raise Refused("a frame of an unknown kind")
    kind = list(KINDS)[tag]
    declared = [each.split(":") for each in KINDS[kind].split()]
    if [type(each).__name__ for each in values] != [each for _, each in declared]:
        raise Refused(f"a {kind} whose fields are of other types")
    return kind, dict(zip((name for name, _ in declared), values, strict=True)), body, signature


def is_signed_by(public, kind, nonce, body, signature):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, covered(kind, nonce, body))
    except (InvalidSignature, ValueError):
        return False
    return True


def setup_digest(setup):
    return hashlib.sha256(encode("setup", setup)).digest()


def terms_of(setup):
    names = ("protocol", "version", "parameters", "domain", "epsilon", "delta", "rounds", "nonce")
    return hashlib.sha256(b"parley terms" + pack([setup[name] for name in names])).digest()


def question_of(terms, announce):
    return hashlib.sha256(b"parley question" + terms + pack([announce["round"], announce["broadcast"]])).digest()


# Merkle proofs (RFC 9162, 2.1.3.2 and 2.1.4.2).


def parent(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def climb(place, last, steps, old, new):
    """Both heads that a path leads to, or None where it is too short or too long."""
    for step in steps:
        if last == 0:
            return None
        if place % 2 or place == last:
            old, new = parent(step, old), parent(step, new)
            while place % 2 == 0 and place:
                place, last = place // 2, last // 2
        else:
            new = parent(new, step)
        place, last = place // 2, last // 2
    return (old, new) if last == 0 else None


def digests(path):
    return [path[start : start + 32] for start in range(0, len(path), 32)]


def is_included(leaf, index, size, path, root):
    found = climb(index, size - 1, digests(path), leaf, leaf) if 0 <= index < size else None
    return found is not None and found[1] == root


def is_consistent(first, before, size, root, path):
    steps = digests(path)
    if first == size or not 0 < first < size or not steps:
        return first == size and not steps and before == root
    steps = steps if first & (first - 1) else [before, *steps]
    place, last = first - 1, size - 1
    while place % 2:
        place, last = place // 2, last // 2
    return climb(place, last, steps[1:], steps[0], steps[0]) == (before, root)


def leaf(sequence, time, sender, frame):
    return hashlib.sha256(b"\0" + pack([sequence, time, sender, hashlib.sha256(frame).digest()])).digest()


def all_included(frames, sender, receipt, close):
    """Whether a receipt shows that each of these frames is on record, under the head in the board's close."""
    rows = list(zip(*(receipt[name] for name in ("chunks", "sequences", "times", "paths")), strict=True))
    return {chunk for chunk, *_ in rows} == set(range(len(frames))) and all(
        is_included(leaf(at, when, sender, frames[chunk]), at, close["size"], path, close["root"])
        for chunk, at, when, path in rows
    )


class State:
    """`state.parley`: PARLEYS2, then entries of a length, a payload and the SHA-256 of everything so far."""

    def __init__(self, folder):
        self.folder = Path(folder)
        path = self.folder / "state.parley"
        self.file = os.open(path, os.O_RDWR | os.O_APPEND)
        fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = path.read_bytes()
        self.chain, at, payloads = hashlib.sha256(b"PARLEYS2").digest(), 8, []
        while at < len(content):
            size = int.from_bytes(content[at : at + 4], "little")
            payload, stored = content[at + 4 : at + 4 + size], content[at + 4 + size : at + 36 + size]
            self.chain = hashlib.sha256(self.chain + content[at : at + 4] + payload).digest()
            if stored != self.chain or content[:8] != b"PARLEYS2":
                raise SystemExit(f"the state is cut or altered at byte {at}: with it nobody may speak")
            payloads.append(unpack(payload))
            at += 36 + size
        self.identity, *entries = payloads
        self.seated, self.answered, self.finished = None, {}, set()
        for kind, fields in entries:
            self._note(kind, fields)

    def write(self, kind, **fields):
        """When this returns the disk has it, and what follows from it may be said."""
        payload = pack([kind, fields])
        length = len(payload).to_bytes(4, "little")
        self.chain = hashlib.sha256(self.chain + length + payload).digest()
        if os.write(self.file, entry := length + payload + self.chain) < len(entry):
            raise SystemExit("the disk took a part of an entry: nothing was said, and this state is spent")
        os.fsync(self.file)
        self._note(kind, fields)

    def _note(self, kind, fields):
        if kind == "answered":
            self.answered[fields["round"]] = fields
            return
        self.seated, self.answered = (fields, {}) if kind == "seated" else (None, {})
        if kind == "finished":
            self.finished.add(fields["run"])

    def keep_evidence(self, receipt, reason, frames):
        seen = {name: receipt[name] for name in ("run", "node", "round", "close")}
        path = self.folder / f"evidence-{receipt['round']}.parley"
        path.write_bytes(b"PARLEYE2" + pack({**seen, "reason": reason, "frames": frames}))


def curve_keys(own, board):
    """Our own pair and the board's public key, from the files of `parley keys`."""
    pair, listed = (tomllib.loads(Path(path).read_text()) for path in (own, board))
    return [each.encode() for each in (pair["public"], pair["secret"], *listed.values())]


def connect(addresses, node, curve=None):
    """The context of two sockets: one to the board's inbox, one that hears broadcasts and the node's own topic."""
    context = zmq.Context()
    inbox, feed = context.socket(zmq.PUSH), context.socket(zmq.SUB)
    # A frame is taken only when there is a board to take it; what is queued when we leave has a second to go.
    for option, value in ((zmq.IMMEDIATE, 1), (zmq.SNDTIMEO, 30_000), (zmq.LINGER, 1000)):
        inbox.setsockopt(option, value)
    for socket in (inbox, feed) if curve else ():
        socket.curve_publickey, socket.curve_secretkey, socket.curve_serverkey = curve
    for topic in (b"B", b"P" + hashlib.sha256(node.encode()).digest()[:8]):
        feed.setsockopt(zmq.SUBSCRIBE, topic)
    feed.connect(addresses["feed"])
    inbox.connect(addresses["inbox"])
    return context, inbox, feed
