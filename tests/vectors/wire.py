"""Makes the test vectors of docs/wire.md from Parley's own code: `python -m tests.vectors.wire --write`.

Bytes are hexadecimal text. A float is written with a point or an exponent, an integer without. In a value, a map with
the only key "bytes" stands for bytes, one with the only key "array" for an array with its type, dimensions and bytes.
"""

import hashlib
import json
import sys
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import coins, question_of, setup_digest, terms_of
from parley.emulator.record.merkle import Tree, leaf_hash, leaf_of
from parley.emulator.record.records import closing, closing_payload
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.transport.ports import topic_for
from parley.emulator.wire.batches import Batch
from parley.emulator.wire.codec import DTYPES, bundle, encode, envelope, pack
from parley.emulator.wire.codec import seal as sealed
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Inquiry,
    Message,
    Pledge,
    Ready,
    Receipt,
    Refusal,
    Reminder,
    Replies,
    Result,
    Resume,
    Roster,
    Seating,
    Setup,
    Shard,
    Tally,
    Tie,
)
from parley.emulator.wire.sealing import public_of, seal
from parley.emulator.wire.shapes import Shape, as_matrix
from parley.emulator.wire.signatures import Signer, covered
from parley.nodes.state.receipts import Receipts
from parley.protocols.tuned.groups import groups_of, places_of
from tests.vectors.wire_replies import (
    KEY,
    NONCE,
    RUN,
    column,
    decoding_vectors,
    exact_vectors,
    expansion_vectors,
    protocol_vectors,
    randomizer_vectors,
)

PATH = Path(__file__).resolve().parent / "wire.json"
NODE = "alice"
ANALYST, BOARD, ALICE, SHUFFLER, SHARD = (Signer(bytes([number]) * 32) for number in (1, 2, 3, 4, 5))
NOW = 1_700_000_000_000_000_000

SETUP = Setup(
    run=RUN,
    protocol="frequency-grr",
    parameters={"workload": {"statistic": "gini-diversity", "levels": 5}, "epsilon": 2.0, "users": 24},
    epsilon=2.0,
    delta=0.0,
    rounds=1,
    version=1,
    domain={"inputs": 5},
    nonce=NONCE,
)
ANNOUNCE = Announce(run=RUN, round=1, broadcast={}, speakers=24)
LATER = Announce(run=RUN, round=2, broadcast={"mu": np.array([0.5, -0.25])}, speakers=24)
QUESTION = question_of(terms_of(SETUP), ANNOUNCE)
REPLIES = Replies(
    run=RUN,
    round=1,
    node=NODE,
    chunk=0,
    chunks=1,
    users=np.arange(4, 7),
    columns={"category.category": np.array([0, 3, 4], dtype=np.uint32)},
    question=QUESTION,
)


def shown(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, np.ndarray):
        return {"array": column(value)}
    if isinstance(value, dict):
        return {name: shown(each) for name, each in sorted(value.items())}
    if isinstance(value, tuple | list):
        return [shown(each) for each in value]
    return value


def value_vectors() -> list[dict[str, Any]]:
    """Values and their one encoding."""
    numbers = [0, 127, 128, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    negative = [-1, -32, -33, -128, -129, -32768, -32769, -(2**31), -(2**31) - 1, -(2**63)]
    texts = ["", "a", "é", "x" * 31, "x" * 32, "x" * 255, "x" * 256]
    arrays = [np.arange(2, dtype=dtype) for dtype in DTYPES]
    shapes = [np.zeros((), dtype=np.uint8), np.ones((2, 3), dtype=np.int16), np.zeros((0,)), np.ones((1, 2, 2))]
    plain = [None, True, False, 0.0, 1.0, -0.5, 1e300, [], [1] * 16, {}, {"b": 1, "a": 2, "B": 3, "aa": 4}]
    every: list[Any] = [*plain, *numbers, *negative, *texts, b"", b"\0" * 255, b"\1" * 256, *arrays, *shapes]
    return [{"value": shown(each), "hex": pack(each).hex()} for each in every]


REFUSED = {
    "a number in a longer form than it needs": "cc7f",
    "a length in a longer form than it needs": "d90161",
    "a 32-bit float": "ca3f800000",
    "keys that do not increase": "82a16201a16101",
    "a key that comes twice": "82a16101a16102",
    "a key that is not text": "810101",
    "an extension of another type": "d40200",
    "an array with a byte too many": "d701000101000000" + "0102",
    "an extension of 8 bytes that is not in its fixed form": "c70801000102000000" + "0102",
    "a truth value that is neither 0 nor 1": "c707010a010100000002",
    "a value with a byte behind it": "0100",
    "a value that ends too early": "9201",
    "a byte that starts nothing": "c1",
}


def refused_frames() -> dict[str, str]:
    """Frames that nobody may take for a message."""
    result = [7, RUN, 0.5, 0.125, 0.25, 0.75, 23, {}]
    endless = pack(result).replace(pack(0.125), b"\xcb\x7f\xf0" + bytes(6))
    bodies = {
        "a float that is not finite": endless,
        "an unknown tag": pack([16, RUN]),
        "a field too few": pack(result[:-1]),
        "an integer where a float belongs": pack([*result[:2], 1, *result[3:]]),
        "a value that is not an array": pack({"run": RUN}),
        "a signature of 63 bytes": pack(result) + bytes(63),
    }
    frames = {name: body + zlib.crc32(body).to_bytes(4, "little") for name, body in bodies.items()}
    whole = encode(REPLIES)
    frames["a checksum that is wrong"] = whole[:-1] + bytes([whole[-1] ^ 1])
    return {name: frame.hex() for name, frame in frames.items()}


def messages() -> list[tuple[Message, Signer | None]]:
    """One of every kind and who signs it; what is transport is not signed by the board."""
    close = Close(run=RUN, round=1, replies=23, missing=1, absent=("bob",), size=7, root=bytes(range(32)))
    tally = Tally(
        run=RUN,
        round=1,
        node="shard-0",
        replies=23,
        sums={"y": np.array([9, 14]), "y.size": np.array(23)},
        rejected={NODE: 1},
        silent=0,
        close=encode(close, BOARD, NONCE),
        question=QUESTION,
    )
    shown = receipt_case()[0]
    return [
        (Ready(node=NODE, first=4, users=3, pid=4711, run=RUN, key=ALICE.public), ALICE),
        (Roster(run=RUN, nodes=3, users=24, nonce=NONCE), BOARD),
        (SETUP, ANALYST),
        (ANNOUNCE, ANALYST),
        (LATER, ANALYST),
        (REPLIES, ALICE),
        (Refusal(run=RUN, round=0, node=NODE, reason="epsilon 2.0 is above this user's cap 1.0"), ALICE),
        (close, BOARD),
        (Result(run=RUN, estimate=0.5, predicted_rmse=0.125, low=0.25, high=0.75, replied=23, details={}), ANALYST),
        (Abort(run=RUN, outcome="failed", reason="the analyst said nothing for 600 s", nonce=NONCE), BOARD),
        (Reminder(run=RUN, round=1, missing={"bob": (), NODE: (0,)}), BOARD),
        (Resume(sequence=12, count=0), None),
        (Event(event="drop", node="bob", round=1, detail="a frame that is not a tagged array"), BOARD),
        (shown, None),
        (Inquiry(run=RUN, round=1, node=NODE), ALICE),
        (Pledge(run=RUN, setup=setup_digest(SETUP)), SHUFFLER),
        (Seating(run=RUN, node=NODE, key=ALICE.public, nonce=NONCE), BOARD),
        (
            Shard(
                run=RUN,
                node="shard-0",
                stretches=np.array([[0, 4], [7, 12]]),
                pid=4712,
                roster=encode(Roster(run=RUN, nodes=2, users=9), BOARD),
                key=SHARD.public,
            ),
            SHARD,
        ),
        (tally, SHARD),
        (Tie(run=RUN, round=1, node="shard-0", tally=encode(tally, SHARD, NONCE), receipt=encode(shown)), SHARD),
    ]


def bound_nonce(message: Message) -> bytes:
    return b"" if isinstance(message, Ready | Roster | Pledge | Shard) else NONCE


def frame_vectors() -> list[dict[str, Any]]:
    """One frame of every kind: the fields, what is signed, and the bytes."""
    vectors = []
    for message, signer in messages():
        plain = encode(message)
        frame = encode(message, signer, NONCE)
        body = plain[:-4]
        vectors.append(
            {
                "kind": message.kind,
                "fields": {
                    each.name: [int(message.users[0]), len(message.users)]
                    if isinstance(message, Replies) and each.name == "users"
                    else shown(getattr(message, each.name))
                    for each in fields(message)
                },
                "body": body.hex(),
                "nonce": bound_nonce(message).hex() if signer else None,
                "covered": covered(message.kind, bound_nonce(message), body).hex() if signer else None,
                "secret": signer.secret.hex() if signer else None,
                "public": signer.public.hex() if signer else None,
                "frame": frame.hex(),
            }
        )
    return vectors


def receipt_case() -> tuple[Receipt, dict[str, Any]]:
    """The receipt of round 2 of a small record, with all that a node needs to believe it."""
    tree, receipts, records = Tree(), Receipts(RUN), []
    second = Replies(**{**vars(REPLIES), "round": 2, "question": question_of(terms_of(SETUP), LATER)})

    def append(sender: str, message: Message, signer: Signer) -> bytes:
        frame, sequence = encode(message, signer, NONCE), len(tree)
        tree.append(leaf_of(sequence, NOW + sequence, sender, hashlib.sha256(frame).digest()))
        receipts.note(sequence, NOW + sequence, message, frame)
        records.append({"sequence": sequence, "time": NOW + sequence, "sender": sender, "frame": frame.hex()})
        return frame

    append("alice", Ready(node=NODE, first=4, users=3, pid=4711, run=RUN, key=ALICE.public), ALICE)
    append("board", Roster(run=RUN, nodes=1, users=3, nonce=NONCE), BOARD)
    append("analyst", SETUP, ANALYST)
    heads = []
    for number, (announce, replies) in enumerate(((ANNOUNCE, REPLIES), (LATER, second)), 1):
        append("analyst", announce, ANALYST)
        append(NODE, replies, ALICE)
        close = Close(run=RUN, round=number, replies=3, missing=0, size=len(tree), root=tree.root())
        heads.append({"size": len(tree), "root": tree.root().hex()})
        append(BOARD_NAME, close, BOARD)
    made = receipts.make(NODE, 2, tree)
    assert made is not None
    return made, {
        "records": records,
        "heads": heads,
        "board": BOARD.public.hex(),
        "nonce": NONCE.hex(),
        "receipt": encode(made).hex(),
        "envelope": envelope(0, BOARD_NAME, encode(made)).hex(),
    }


def merkle_vectors() -> dict[str, Any]:
    """Roots of 0 to 8 leaves, all inclusion paths and all consistency paths."""
    tree, size = Tree(), 8
    leaves = [leaf_hash(bytes([number])) for number in range(size)]
    for each in leaves:
        tree.append(each)
    sizes = range(1, size + 1)
    return {
        "leaves": [each.hex() for each in leaves],
        "roots": [tree.root(each).hex() for each in range(size + 1)],
        "inclusion": [
            {"index": index, "size": each, "path": b"".join(tree.inclusion(index, each)).hex()}
            for each in sizes
            for index in range(each)
        ],
        "consistency": [
            {"first": first, "size": each, "path": b"".join(tree.consistency(first, each)).hex()}
            for each in sizes
            for first in range(1, each + 1)
        ],
    }


def coin_vectors() -> list[dict[str, Any]]:
    """Coins of users on both sides of a segment's border, for sizes of one and of several blocks."""
    asked = [(0, 2, 8), (65535, 2, 16), (65536, 1, 16), (3 * 65536 + 5, 1, 104), (2**40, 1, 64), (7, 2, 200)]
    return [
        {
            "key": KEY.hex(),
            "question": QUESTION.hex(),
            "first": first,
            "size": size,
            "rows": [row.tobytes().hex() for row in coins(KEY, QUESTION, first, users, size)],
        }
        for first, users, size in asked
    ]


def batch_vector() -> dict[str, Any]:
    """Three replies of single users in one record."""
    said = [
        replace(REPLIES, chunk=user - 4, chunks=3, users=np.array([user]), columns={"category.category": value[None]})
        for user, value in enumerate(REPLIES.columns["category.category"], 4)
    ]
    frames = [encode(each, ALICE, NONCE) for each in said]
    shape = Shape.of(frames[0], said[0])
    assert shape is not None
    batch = Batch(sequence=6, time_ns=NOW, name=shape.node, matrix=as_matrix(frames))
    return {
        "sequence": 6,
        "time": NOW,
        "frames": [each.hex() for each in frames],
        "payload": batch.payload.hex(),
        "delivered": sealed(batch.payload).hex(),
    }


def other_vectors() -> dict[str, Any]:
    """Groups, sealed boxes, topics, what wraps a frame, and the record's end."""
    secret, coin = bytes(range(32)), bytes(range(32, 64))
    message = np.arange(9, dtype=np.uint8)
    box = seal(public_of(secret), message[None], np.frombuffer(coin, np.uint8)[None])[0]
    share, places, users = 0.4, 2048, np.array([*range(12), 2**19, 2**40 + 5])
    frame = encode(REPLIES, ALICE, NONCE)
    end = closing("completed", "", 9, bytes(range(32))).signed(BOARD, NONCE)
    body = pack([end.outcome, end.reason, end.records, end.root])
    return {
        "groups": {
            "salt": 77,
            "share": share,
            "users": users.tolist(),
            "groups": groups_of(users, 77, share).tolist(),
            "of": places,
            "places": places_of(users, 77, places).tolist(),
        },
        "sealed": {
            "public": public_of(secret).hex(),
            "coins": coin.hex(),
            "message": message.tobytes().hex(),
            "box": box.tobytes().hex(),
        },
        "topics": {name: topic_for(name).hex() for name in ("alice", "node-0")},
        "envelope": {"sequence": 6, "sender": NODE, "frame": frame.hex(), "hex": envelope(6, NODE, frame).hex()},
        "bundle": {"frames": [frame.hex()] * 2, "hex": bundle([frame, frame]).hex()},
        "batch": batch_vector(),
        "closing": {
            "payload": closing_payload(end).hex(),
            "covered": covered("end", NONCE, body).hex(),
            "signature": end.signature.hex(),
            "board": BOARD.public.hex(),
        },
        "leaf": {
            "sequence": 6,
            "time": NOW,
            "sender": NODE,
            "frame": frame.hex(),
            "leaf": leaf_of(6, NOW, NODE, hashlib.sha256(frame).digest()).hex(),
        },
        "digests": {
            "setup": encode(SETUP).hex(),
            "setup_digest": setup_digest(SETUP).hex(),
            "terms": terms_of(SETUP).hex(),
            "questions": [
                {"announce": encode(each).hex(), "question": question_of(terms_of(SETUP), each).hex()}
                for each in (ANNOUNCE, LATER)
            ],
        },
    }


def floats() -> dict[str, Any]:
    """What another machine may make with other last bits."""
    return {"decoding": decoding_vectors(), "protocols": protocol_vectors()}


def make() -> dict[str, Any]:
    """All that is the same on every machine."""
    return {
        "made_by": "python -m tests.vectors.wire --write",
        "values": value_vectors(),
        "refused": REFUSED,
        "refused_frames": refused_frames(),
        "frames": frame_vectors(),
        "receipt": receipt_case()[1],
        "merkle": merkle_vectors(),
        "coins": coin_vectors(),
        "expansion": expansion_vectors(),
        **exact_vectors(),
        "randomizers": randomizer_vectors(),
        **other_vectors(),
    }


def text() -> str:
    """As the file holds them: one vector a line."""
    lines = []
    for name, content in (*make().items(), *floats().items()):
        if isinstance(content, list):
            inner = ",\n".join("  " + json.dumps(each) for each in content)
            lines.append(f"{json.dumps(name)}: [\n{inner}\n]")
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(content)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(text())
    else:
        print(text(), end="")
