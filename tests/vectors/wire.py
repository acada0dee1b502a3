"""Makes the test vectors of docs/wire.md from Parley's own code: `python -m tests.vectors.wire --write`.

Bytes are hexadecimal text. A float is written with a point or an exponent, an integer without. In a value, a map with
the only key "bytes" stands for bytes, one with the only key "array" for an array with its type, dimensions and bytes.
"""

import base64
import hashlib
import json
import sys
import zlib
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.board import BOARD_NAME
from emulator.codec import DTYPES, bundle, encode, envelope, pack
from emulator.coins import coins
from emulator.errors import BadInput
from emulator.merkle import Tree, leaf_hash
from emulator.messages import (
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
    Setup,
)
from emulator.protocol import Protocol
from emulator.question import question_of, setup_digest, terms_of
from emulator.randomizer import Randomizer
from emulator.records import closing, closing_payload, leaf_of
from emulator.sealing import public_of, seal
from emulator.signing import Signer, covered
from emulator.simulate import conversation
from emulator.transport import topic_for
from nodes.receipts import Receipts
from protocols.groups import members
from protocols.randomizers.blasiok import Blasiok
from protocols.randomizers.codebook import Codebook
from protocols.randomizers.exact import exponential_lower, exponential_upper, guarded
from protocols.randomizers.expansion import all_directions, expand_words, table
from protocols.randomizers.grid_laplace import GridLaplace
from protocols.randomizers.one_bit import OneBit
from protocols.randomizers.oue import OptimisedUnaryEncoding
from protocols.randomizers.privunit import PrivUnit
from protocols.randomizers.randomized_response import RandomizedResponse
from protocols.randomizers.shares import Shares
from protocols.randomizers.subset_selection import SubsetSelection
from protocols.randomizers.two_level import TwoLevel
from protocols.registry import design, names
from protocols.workloads.kernel import Kernel
from protocols.workloads.problem import make_workload
from protocols.workloads.workload import Workload

PATH = Path(__file__).resolve().parent / "wire.json"
RUN, NODE = "survey", "alice"
NONCE = bytes(range(16))
ANALYST, BOARD, ALICE, SHUFFLER = (Signer(bytes([number]) * 32) for number in (1, 2, 3, 4))
KEY = hashlib.sha256(b"a coin key").digest()
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


def column(values: NDArray[Any]) -> dict[str, Any]:
    """An array as its type, its dimensions and its bytes on the wire."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "shape": list(values.shape), "hex": little.tobytes().hex()}


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
        "an unknown tag": pack([15, RUN]),
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
        (Abort(run=RUN, outcome="failed", reason="the analyst said nothing for 600 s"), BOARD),
        (Reminder(run=RUN, round=1, missing={"bob": (), NODE: (0,)}), BOARD),
        (Resume(sequence=12, count=0), None),
        (Event(event="drop", node="bob", round=1, detail="a frame that is not a tagged array"), BOARD),
        (receipt_case()[0], None),
        (Inquiry(run=RUN, round=1, node=NODE), ALICE),
        (Pledge(run=RUN, setup=setup_digest(SETUP)), SHUFFLER),
    ]


def bound_nonce(message: Message) -> bytes:
    return b"" if isinstance(message, Ready | Roster | Pledge) else NONCE


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


def expansion_vectors() -> dict[str, Any]:
    """The table of lanes in full, and words and directions of a few seeds."""
    lanes = table().astype("<i2").tobytes()
    seeds = np.array([0, 1, 2**64 - 1, 0x0123456789ABCDEF], dtype=np.uint64)
    return {
        "table": base64.b64encode(zlib.compress(lanes, 9)).decode(),
        "table_sha256": hashlib.sha256(lanes).hexdigest(),
        "words": [
            {"seed": f"{int(seed):016x}", "words": [f"{int(word):016x}" for word in row]}
            for seed, row in zip(seeds, expand_words(seeds, np.arange(3, dtype=np.uint64)), strict=True)
        ],
        "directions": [
            {"seed": f"{int(seed):016x}", "dimension": 6, "directions": rows.astype(int).tolist()}
            for seed, rows in zip(seeds, all_directions(seeds, 2, 6), strict=True)
        ],
    }


def exact_vectors() -> dict[str, Any]:
    """Bounds of e^x, over 2^192, and choices with two probabilities."""
    points = [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(-1, 3), Fraction(32), guarded(1.0)]
    return {
        "exponentials": [
            {
                "x": [x.numerator, x.denominator],
                "lower": f"{int(exponential_lower(x) * 2**192):x}",
                "upper": f"{int(exponential_upper(x) * 2**192):x}",
            }
            for x in points
        ],
        "choices": [
            {"outcomes": m, "favoured": t, "epsilon": epsilon, "high": f"{found.high:x}", "low": f"{found.low:x}"}
            for m, t, epsilon in ((2, 1, 1.0), (5, 1, 2.0), (16, 6, 0.5), (1 << 20, 1, 8.0))
            for found in [TwoLevel(outcomes=m, favoured=t, epsilon=epsilon)]
        ],
    }


def rows_of(name: str, size: int, count: int = 6) -> NDArray[np.uint8]:
    """Coins at both ends, and some in between."""
    drawn = [hashlib.shake_128(f"{name} {each}".encode()).digest(size) for each in range(count)]
    return np.array([list(row) for row in (bytes(size), b"\xff" * size, *drawn)], dtype=np.uint8)


Case = tuple[Randomizer, dict[str, Any], NDArray[Any]]


def randomizer_cases() -> list[Case]:
    """Every randomizer, its parameters, and values to hide."""
    vectors = np.array([[1.0, 0.0, 0.0], [0.3, -0.4, 0.1], [0.0, 0.0, 0.0], [-0.6, 0.8, 0.0]])
    return [
        (RandomizedResponse(categories=5, epsilon=2.0), {"categories": 5, "epsilon": 2.0}, np.array([0, 4, 2])),
        (OptimisedUnaryEncoding(categories=11, epsilon=1.0), {"categories": 11, "epsilon": 1.0}, np.array([0, 10])),
        (
            SubsetSelection(categories=9, epsilon=1.0),
            {"categories": 9, "epsilon": 1.0, "size": SubsetSelection(categories=9, epsilon=1.0).width},
            np.array([0, 8, 5]),
        ),
        (OneBit(low=-1.0, high=3.0, epsilon=0.5), {"low": -1.0, "high": 3.0, "epsilon": 0.5}, np.array([-2.0, 0.3])),
        (
            GridLaplace(low=-0.7, high=1.1, epsilon=2.0),
            {"low": -0.7, "high": 1.1, "epsilon": 2.0, "sensitivity": None},
            np.array([0.123, 5.0, -0.7]),
        ),
        (
            GridLaplace(low=0.0, high=1.0, epsilon=1.0, sensitivity=3.0),
            {"low": 0.0, "high": 1.0, "epsilon": 1.0, "sensitivity": 3.0},
            np.array([1.0, 0.333]),
        ),
        (
            Codebook(dimension=3, radius=1.0, epsilon=1.0, candidates=16, best=6),
            {"radius": 1.0, "epsilon": 1.0, "candidates": 16, "best": 6},
            vectors,
        ),
        (
            Codebook(dimension=3, radius=1.7, epsilon=4.0, candidates=300, best=40),
            {"radius": 1.7, "epsilon": 4.0, "candidates": 300, "best": 40},
            vectors,
        ),
        (Blasiok(dimension=3, radius=1.0, epsilon=1.0), {"radius": 1.0, "epsilon": 1.0}, vectors),
        (
            PrivUnit(dimension=3, radius=1.0, epsilon=1.0, gamma=0.25),
            {"radius": 1.0, "epsilon": 1.0, "gamma": 0.25},
            vectors,
        ),
    ]


def decoding_vectors() -> list[dict[str, Any]]:
    """What a step of the integer sum of replies is worth, and what each reply adds besides."""
    return [
        {
            "randomizer": type(randomizer).__name__,
            "parameters": parameters,
            "dimension": inputs.shape[-1],
            "unit": randomizer.unit,
            "offset": randomizer.offset,
        }
        for randomizer, parameters, inputs in randomizer_cases()
    ]


def randomizer_vectors() -> list[dict[str, Any]]:
    """Replies of every randomizer for given coins and inputs."""
    found = []
    for randomizer, parameters, inputs in randomizer_cases():
        name = type(randomizer).__name__
        rows = rows_of(name, randomizer.coins)
        if isinstance(randomizer, PrivUnit):
            # The last coin of all stands for a number that is not below 1 in double precision.
            rows = rows[2:]
        for place, row in enumerate(rows):
            x = inputs[place % len(inputs)]
            reply = randomizer.sample(np.array([x], dtype=np.float64), row[None])
            found.append(reply_vector(name, parameters, x.tolist(), row, {n: c[0] for n, c in reply.items()}))
    return [*found, *share_vectors()]


def share_vectors() -> list[dict[str, Any]]:
    """Shares are not a randomizer on their own: they hide a number among those of others."""
    encoder = Shares(dimension=2, shares=3, bits=20, variance=2.5)
    numbers = np.array([[7, -9], [0, 1000]])
    return [
        reply_vector(
            "Shares",
            {"shares": 3, "bits": 20, "variance": 2.5},
            numbers[place % 2].tolist(),
            row,
            {"shares": encoder.sample(numbers[place % 2][None], row[None])[0]},
        )
        for place, row in enumerate(rows_of("Shares", encoder.coins))
    ]


def reply_vector(name: str, parameters: dict[str, Any], x: Any, row: NDArray[np.uint8], reply: Any) -> dict[str, Any]:
    return {
        "randomizer": name,
        "parameters": parameters,
        "input": x,
        "coins": row.tobytes().hex(),
        "reply": {each: column(np.asarray(values)) for each, values in reply.items()},
    }


def other_vectors() -> dict[str, Any]:
    """Groups, sealed boxes, topics, what wraps a frame, and the record's end."""
    secret, coin = bytes(range(32)), bytes(range(32, 64))
    message = np.arange(9, dtype=np.uint8)
    box = seal(public_of(secret), message[None], np.frombuffer(coin, np.uint8)[None])[0]
    shares, users = (0.2, 0.5, 0.3), np.arange(12)
    groups = np.stack([members(users, 77, shares, group) for group in range(3)]).argmax(axis=0)
    frame = encode(REPLIES, ALICE, NONCE)
    end = closing("completed", "", 9, bytes(range(32))).signed(BOARD, NONCE)
    body = pack([end.outcome, end.reason, end.records, end.root])
    return {
        "groups": {"salt": 77, "shares": list(shares), "groups": groups.tolist()},
        "sealed": {
            "public": public_of(secret).hex(),
            "coins": coin.hex(),
            "message": message.tobytes().hex(),
            "box": box.tobytes().hex(),
        },
        "topics": {name: topic_for(name).hex() for name in ("alice", "node-0")},
        "envelope": {"sequence": 6, "sender": NODE, "frame": frame.hex(), "hex": envelope(6, NODE, frame).hex()},
        "bundle": {"frames": [frame.hex()] * 2, "hex": bundle([frame, frame]).hex()},
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


KERNEL = np.array([[0.0, 1.0, 0.5], [1.0, 0.25, 0.75], [0.5, 0.75, 0.0]])
STATISTICS: tuple[Workload, ...] = (
    make_workload("kendall", "3x4", None),
    make_workload("gini-diversity", "4", None),
    make_workload("gini-mean-difference", "5", None),
    make_workload("auc", "4", None),
    Kernel(KERNEL),
)
USERS, SHOWN = 400, 3


def protocol_vectors() -> list[dict[str, Any]]:
    """A few users' replies in every round of every protocol about several statistics.

    Broadcasts are sums of floats, so that another machine may make others; what follows from them it makes alike.
    """
    vectors = []
    for name in names("shuffler"):
        for workload in STATISTICS:
            with suppress(BadInput):
                protocol = design(name, workload, epsilon=EPSILONS.get(name, 2.0), users=USERS)
                vectors += [spoken(workload.name, *each) for each in rounds_of(protocol)]
    return vectors


EPSILONS = {"three-round-tuned": 4.0, "split-and-mix": 1.0, "shuffled": 1.0}


def rounds_of(protocol: Protocol) -> list[tuple[Protocol, Setup, Announce]]:
    """The setup and each broadcast of a run; behind a shuffler there is one round."""
    inputs = np.random.default_rng(1).integers(0, protocol.inputs, USERS)
    claim = protocol.claim
    if claim.trusts == "shuffler":
        setup = Setup(
            run=RUN,
            protocol=protocol.name,
            parameters=protocol.parameters(),
            epsilon=claim.epsilon,
            delta=claim.delta,
            rounds=1,
            domain={"inputs": protocol.inputs},
            nonce=NONCE,
        )
        return [(protocol, setup, Announce(run=RUN, round=1, broadcast={}, speakers=USERS))]
    said = [message for _, message in conversation(protocol, inputs, KEY, run=RUN)]
    (setup,) = (message for message in said if isinstance(message, Setup))
    return [(protocol, setup, message) for message in said if isinstance(message, Announce)]


def spoken(statistic: str, protocol: Protocol, setup: Setup, announce: Announce) -> dict[str, Any]:
    """What the first users who speak in a round say."""
    inputs = np.random.default_rng(announce.round).integers(0, protocol.inputs, USERS)
    step = protocol.rounds[announce.round - 1]
    places = np.flatnonzero(step.speaks(np.arange(USERS)))[:SHOWN]
    return {
        "protocol": protocol.name,
        "statistic": statistic,
        "setup": encode(setup).hex(),
        "announce": encode(announce).hex(),
        "coin_key": KEY.hex(),
        "silent": [int(each) for each in range(int(places[-1])) if each not in places],
        "users": [
            {
                "user": int(user),
                "input": int(inputs[user]),
                "reply": drawn(protocol, setup, announce, user, inputs[user]),
            }
            for user in places
        ],
    }


def drawn(protocol: Protocol, setup: Setup, announce: Announce, user: int, x: int) -> dict[str, Any]:
    """One user's reply, column by column."""
    step, question = protocol.rounds[announce.round - 1], question_of(terms_of(setup), announce)
    flips = coins(KEY, question, int(user), 1, step.coins)
    found = step.respond(announce.broadcast, np.array([x]), flips)
    return {name: column(np.asarray(values[0])) for name, values in sorted(found.items())}


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
