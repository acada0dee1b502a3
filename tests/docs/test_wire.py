"""docs/wire.md holds: the vectors are Parley's and those of an independent implementation, and its tables are true."""

import ast
import base64
import hashlib
import importlib
import inspect
import json
import math
import pkgutil
import re
import struct
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.randomizer import Randomizer
from parley.emulator.wire.codec import decode, said_by, unpack
from parley.emulator.wire.messages import MESSAGES, Announce, Pledge, Ready, Roster, Setup, Shard
from parley.protocols import randomizers
from parley.protocols.registry import build
from tests.docs import independent, independent_channels
from tests.docs.independent import replies, wire
from tests.docs.independent_protocols import Coins, levelled_selection, participates, reply
from tests.docs.tables import DOCS, parameter_names, registered
from tests.docs.test_transcript_page import documented
from tests.vectors.wire import NODE, PATH, make
from tests.vectors.wire_replies import column, decoding_vectors, drawn

VECTORS: dict[str, Any] = json.loads(PATH.read_text())
EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def raw(value: Any) -> Any:
    """A value of the file as the independent implementation knows it."""
    if isinstance(value, dict) and set(value) == {"bytes"}:
        return bytes.fromhex(value["bytes"])
    if isinstance(value, dict) and set(value) == {"array"}:
        array = value["array"]
        return np.frombuffer(bytes.fromhex(array["hex"]), array["dtype"]).reshape(array["shape"])
    if isinstance(value, dict):
        return {name: raw(each) for name, each in value.items()}
    if isinstance(value, list):
        return [raw(each) for each in value]
    return value


def without_floats(vectors: dict[str, Any]) -> dict[str, Any]:
    """PrivUnit replies with floats, whose last bits are a machine's own."""
    kept = [each for each in vectors["randomizers"] if each["randomizer"] != "PrivUnit"]
    return {**vectors, "randomizers": kept}


def direction(vector: dict[str, Any]) -> Any:
    return np.frombuffer(bytes.fromhex(vector["reply"]["direction"]["hex"]), "<f8")


def test_the_vectors_are_those_of_parley() -> None:
    made = json.loads(json.dumps(make()))
    kept = {name: each for name, each in VECTORS.items() if name not in ("protocols", "decoding")}
    assert without_floats(kept) == without_floats(made)
    for ours, theirs in zip(VECTORS["randomizers"], made["randomizers"], strict=True):
        if ours["randomizer"] == "PrivUnit":
            assert np.allclose(direction(ours), direction(theirs), rtol=0, atol=1e-12)


def test_the_independent_implementation_imports_nothing_of_parley() -> None:
    own = {"emulator", "protocols", "nodes", "launch", "parley"}
    for path in (
        *EXAMPLES.glob("foreign_*.py"),
        Path(independent.__file__),
        Path(__file__).with_name("independent_protocols.py"),
        Path(__file__).with_name("independent_channels.py"),
    ):
        tree = ast.parse(path.read_text())
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not own & {name.split(".")[0] for name in modules}, path
        assert len(path.read_text().splitlines()) <= 300, path


@pytest.mark.parametrize("vector", VECTORS["values"], ids=lambda vector: vector["hex"][:24])
def test_values_have_one_encoding(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["hex"])
    assert wire.pack(raw(vector["value"])) == body
    assert wire.pack(wire.unpack(body)) == body


@pytest.mark.parametrize("what", VECTORS["refused"])
def test_other_spellings_are_refused(what: str) -> None:
    body = bytes.fromhex(VECTORS["refused"][what])
    with pytest.raises(RemoteProtocolError):
        unpack(body)
    with pytest.raises(wire.Refused):
        wire.unpack(body)


@pytest.mark.parametrize("what", VECTORS["refused_frames"])
def test_frames_that_are_not_messages_are_refused(what: str) -> None:
    frame = bytes.fromhex(VECTORS["refused_frames"][what])
    with pytest.raises(RemoteProtocolError):
        decode(frame)
    with pytest.raises(wire.Refused):
        wire.decode(frame)


def test_there_is_a_frame_of_every_kind() -> None:
    assert {each["kind"] for each in VECTORS["frames"]} == {each.kind for each in MESSAGES} == set(wire.KINDS)


@pytest.mark.parametrize("vector", VECTORS["frames"], ids=lambda vector: vector["kind"])
def test_frames_and_signatures(vector: dict[str, Any]) -> None:
    kind, frame, fields = vector["kind"], bytes.fromhex(vector["frame"]), raw(vector["fields"])
    found, read, body, signature = wire.decode(frame)
    assert (found, body.hex()) == (kind, vector["body"])
    assert wire.encode(kind, fields) == wire.encode(kind, read) == body + frame_sum(body)
    if vector["secret"] is None:
        assert signature == b""
        return
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["secret"]))
    nonce, public = bytes.fromhex(vector["nonce"]), bytes.fromhex(vector["public"])
    assert wire.covered(kind, nonce, body).hex() == vector["covered"]
    assert wire.encode(kind, fields, key, nonce) == frame
    assert wire.is_signed_by(public, kind, nonce, body, signature)
    assert not wire.is_signed_by(public, kind, nonce + b"\0", body, signature)
    message = decode(frame)
    assert said_by(public, frame, message, nonce)
    loose = isinstance(message, Ready | Roster | Pledge | Shard) or kind in wire.CARRY_A_NONCE
    assert said_by(public, frame, message, b"another nonce ..") == loose


def frame_sum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4, "little")


def test_digests() -> None:
    digests = VECTORS["digests"]
    setup = wire.decode(bytes.fromhex(digests["setup"]))[1]
    assert wire.setup_digest(setup).hex() == digests["setup_digest"]
    assert wire.terms_of(setup).hex() == digests["terms"]
    for each in digests["questions"]:
        announce = wire.decode(bytes.fromhex(each["announce"]))[1]
        assert wire.question_of(bytes.fromhex(digests["terms"]), announce).hex() == each["question"]


@pytest.mark.parametrize("vector", VECTORS["coins"], ids=lambda vector: f"{vector['first']}-{vector['size']}")
def test_coins(vector: dict[str, Any]) -> None:
    key, question = bytes.fromhex(vector["key"]), bytes.fromhex(vector["question"])
    for place, row in enumerate(vector["rows"]):
        expected = independent.words(bytes.fromhex(row))
        assert replies.coins(key, question, vector["first"], place, vector["size"]) == expected


def test_expansion() -> None:
    expansion = VECTORS["expansion"]
    table = np.frombuffer(zlib.decompress(base64.b64decode(expansion["table"])), "<i2")
    assert hashlib.sha256(table.tobytes()).hexdigest() == expansion["table_sha256"]
    assert replies.lanes() == table.tolist()
    for each in expansion["directions"]:
        assert replies.directions(int(each["seed"], 16), 2, each["dimension"]) == each["directions"]
    for each in expansion["words"]:
        key = replies.mix(int(each["seed"], 16))
        words = [replies.mix((key + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) for i in range(len(each["words"]))]
        assert [f"{word:016x}" for word in words] == each["words"]


def test_exact_bounds_and_choices() -> None:
    for each in VECTORS["exponentials"]:
        x = Fraction(*each["x"])
        if x >= 0:
            assert int(replies.exponential_lower(x) * 2**192) == int(each["lower"], 16)
        assert int(independent.exponential_upper(x) * 2**192) == int(each["upper"], 16)
    for each in VECTORS["choices"]:
        found = replies.two_level(each["outcomes"], each["top"], each["epsilon"])
        assert found == (int(each["high"], 16), int(each["low"], 16))


RANDOMIZERS: dict[str, Callable[..., dict[str, Any]]] = {
    "RandomizedResponse": independent.randomized_response,
    "OptimisedUnaryEncoding": independent.unary_encoding,
    "SubsetSelection": independent.subset_selection,
    "LevelledSelection": levelled_selection,
    "OneBit": independent.one_bit,
    "GridLaplace": independent.grid_laplace,
    "Codebook": independent.codebook,
    "Blasiok": independent.blasiok,
    "PrivUnit": independent.privunit,
    "Shares": independent.split,
    "Channel": independent_channels.channel,
    "FoldedChannel": independent_channels.folded_channel,
    "CodebookSeeds": independent_channels.codebook_seeds,
}


def test_every_parameter_randomizer_and_protocol_is_described() -> None:
    page = (DOCS / "wire.md").read_text()
    described = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE))))
    assert {each for name in registered() for each in parameter_names(name)} <= described
    optional = {"rows", "seal"}
    assert optional <= described
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) >= set(RANDOMIZERS)
    sent = page.partition("### What is sent")[2].partition("### Factors")[0]
    shorter = {name: name.replace("frequency", "") for name in ("frequency-oue", "frequency-subset")}
    assert [name for name in registered() if f"`{shorter.get(name, name)}`" not in sent] == []


def test_every_randomizer_has_vectors() -> None:
    """Those of the product, and the two that benchmarks compare with."""
    for module in pkgutil.walk_packages(randomizers.__path__, f"{randomizers.__name__}."):
        importlib.import_module(module.name)
    found, left = set(), [Randomizer]
    while left:
        kind = left.pop()
        left += kind.__subclasses__()
        if kind.__module__.startswith(f"{randomizers.__name__}.") and not inspect.isabstract(kind):
            found.add(kind.__name__)
    described = {each["randomizer"] for each in VECTORS["randomizers"]}
    assert described == set(RANDOMIZERS) == found | {"PrivUnit", "Blasiok"}


@pytest.mark.parametrize(
    "vector", VECTORS["randomizers"], ids=lambda vector: f"{vector['randomizer']}-{vector['coins'][:8]}"
)
def test_replies(vector: dict[str, Any]) -> None:
    sample = RANDOMIZERS[vector["randomizer"]]
    reply = sample(**vector["parameters"], x=vector["input"], coins=bytes.fromhex(vector["coins"]))
    assert set(reply) == set(vector["reply"])
    for name, values in reply.items():
        expected = vector["reply"][name]
        made = np.array(values, dtype=expected["dtype"])
        assert list(made.shape) == expected["shape"]
        if vector["randomizer"] == "PrivUnit":
            assert np.allclose(made, direction(vector), rtol=0, atol=1e-9)
        else:
            assert made.tobytes().hex() == expected["hex"]


@pytest.mark.parametrize("vector", VECTORS["decoding"], ids=lambda vector: vector["randomizer"])
def test_decoding(vector: dict[str, Any]) -> None:
    name = vector["randomizer"]
    made = next(
        each for each in decoding_vectors() if all(each[key] == vector[key] for key in ("randomizer", "parameters"))
    )
    assert (made["unit"], made["offset"]) == pytest.approx((vector["unit"], vector["offset"]), rel=1e-9)
    if name == "GridLaplace":
        assert math.frexp(vector["unit"])[0] == 0.5
    elif name != "PrivUnit":
        found = independent.decoding(name, vector["parameters"], vector["dimension"])
        assert found == pytest.approx((vector["unit"], vector["offset"]), rel=1e-9)


@pytest.mark.parametrize(
    "vector", VECTORS["protocols"], ids=lambda each: f"{each['protocol']}-{each['statistic']}-{each['announce'][-4:]}"
)
def test_what_protocols_send(vector: dict[str, Any]) -> None:
    """From setup, broadcast and coin key to the bytes of a reply: Parley's, the file's, the page's."""
    setup, announce = (wire.decode(bytes.fromhex(vector[name]))[1] for name in ("setup", "announce"))
    ours, asked = decode(bytes.fromhex(vector["setup"])), decode(bytes.fromhex(vector["announce"]))
    assert isinstance(ours, Setup)
    assert isinstance(asked, Announce)
    protocol = build(ours.protocol, ours.parameters)
    size = protocol.rounds[asked.round - 1].coins
    question = wire.question_of(wire.terms_of(setup), announce)
    number, parameters, public = announce["round"], setup["parameters"], announce["broadcast"]
    for each in vector["users"]:
        assert drawn(protocol, ours, asked, each["user"], each["input"]) == each["reply"]
        words = replies.coins(bytes.fromhex(vector["coin_key"]), question, each["user"], 0, -(-size // 8) * 8)
        row = Coins(struct.pack(f"<{len(words)}Q", *words)[:size])
        found = reply(setup["protocol"], parameters, number, public, each["input"], row, each["user"])
        made = {name: column(np.array(values, each["reply"][name]["dtype"])) for name, values in found.items()}
        assert made == each["reply"]
        assert row.data == b""
        assert participates(parameters, number, each["user"])
    assert not any(participates(parameters, number, user) for user in vector["silent"])


def test_every_protocol_has_vectors() -> None:
    assert {each["protocol"] for each in VECTORS["protocols"]} == set(registered())
    for name in registered():
        numbers = {
            wire.decode(bytes.fromhex(each["announce"]))[1]["round"]
            for each in VECTORS["protocols"]
            if each["protocol"] == name
        }
        setup = next(each["setup"] for each in VECTORS["protocols"] if each["protocol"] == name)
        assert numbers == set(range(1, wire.decode(bytes.fromhex(setup))[1]["rounds"] + 1))


def test_the_usual_size_of_subsets() -> None:
    sizes = [each["parameters"] for each in VECTORS["randomizers"] if each["randomizer"] == "SubsetSelection"]
    assert all(independent.usual_size(each["categories"], each["epsilon"]) == each["size"] for each in sizes)


def test_groups_boxes_and_topics() -> None:
    groups, sealed = VECTORS["groups"], VECTORS["sealed"]
    salt = groups["salt"]
    for each, group, place in zip(groups["users"], groups["groups"], groups["places"], strict=True):
        assert independent_channels.group_of(each, salt, groups["share"]) == group
        assert independent_channels.place_of(each, salt, groups["of"]) == place
    box = independent.seal(*(bytes.fromhex(sealed[name]) for name in ("public", "message", "coins")))
    assert box.hex() == sealed["box"]
    for name, topic in VECTORS["topics"].items():
        assert (b"P" + hashlib.sha256(name.encode()).digest()[:8]).hex() == topic


def test_envelopes_and_bundles() -> None:
    envelope, bundle = VECTORS["envelope"], VECTORS["bundle"]
    frame = bytes.fromhex(envelope["frame"])
    assert wire.summed(wire.pack([envelope["sequence"], envelope["sender"], frame])).hex() == envelope["hex"]
    assert wire.summed(wire.pack([255, *map(bytes.fromhex, bundle["frames"])])).hex() == bundle["hex"]


def test_a_batch() -> None:
    """The reader of the other page takes it apart, and its parts follow from the frames."""
    batch, names = VECTORS["batch"], dict[str, Any]()
    exec(documented("A reader", "python"), names)
    frames = [bytes.fromhex(each) for each in batch["frames"]]
    found = names["batch"](*names["value"](bytes.fromhex(batch["payload"])))
    assert found == [(batch["sequence"] + row, batch["time"], NODE, frame) for row, frame in enumerate(frames)]
    places = [place for place in range(len(frames[0])) if len({frame[place] for frame in frames}) > 1]
    varied = [bytes(frame[place] for place in places) for frame in frames[1:]]
    start = frames[0].index(NODE.encode())
    rows = np.frombuffer(b"".join(varied), np.uint8).reshape(len(varied), -1)
    parts = [batch["sequence"], batch["time"], [start, len(NODE)], frames[0]]
    payload = wire.pack([*parts, np.array(places, np.uint16), rows])
    assert payload.hex() == batch["payload"]
    assert wire.summed(payload).hex() == batch["delivered"]


def test_trees() -> None:
    merkle = VECTORS["merkle"]
    leaves = [bytes.fromhex(each) for each in merkle["leaves"]]
    roots = [bytes.fromhex(each) for each in merkle["roots"]]
    assert [independent.tree_root(leaves[:size]) for size in range(len(roots))] == roots
    for each in merkle["inclusion"]:
        index, size, path = each["index"], each["size"], bytes.fromhex(each["path"])
        assert b"".join(independent.inclusion_path(index, leaves[:size])) == path
        assert wire.is_included(leaves[index], index, size, path, roots[size])
        assert not wire.is_included(leaves[index], index, size, path + bytes(32), roots[size])
        assert not wire.is_included(leaves[index - 1], index, size, path, roots[size]) or size == 1
    for each in merkle["consistency"]:
        first, size, path = each["first"], each["size"], bytes.fromhex(each["path"])
        assert b"".join(independent.consistency_path(first, leaves[:size])) == path
        assert wire.is_consistent(first, roots[first], size, roots[size], path)
        assert not wire.is_consistent(first, roots[first - 1], size, roots[size], path)
    leaf = VECTORS["leaf"]
    frame = bytes.fromhex(leaf["frame"])
    assert wire.leaf(leaf["sequence"], leaf["time"], leaf["sender"], frame).hex() == leaf["leaf"]


def test_a_receipt() -> None:
    case = VECTORS["receipt"]
    _, receipt, _, signature = wire.decode(bytes.fromhex(case["receipt"]))
    kind, close, body, signed = wire.decode(receipt["close"])
    nonce, (before, head) = bytes.fromhex(case["nonce"]), case["heads"]
    assert signature == b""
    assert wire.is_signed_by(bytes.fromhex(case["board"]), kind, nonce, body, signed)
    assert (close["size"], close["root"].hex()) == (head["size"], head["root"])
    for at, when, path in zip(receipt["sequences"], receipt["times"], receipt["paths"], strict=True):
        record = case["records"][at]
        assert (record["time"], record["sender"]) == (when, "alice")
        leaf = wire.leaf(at, when, "alice", bytes.fromhex(record["frame"]))
        assert wire.is_included(leaf, at, close["size"], path, close["root"])
    old = bytes.fromhex(before["root"])
    assert receipt["before"] == before["size"]
    assert wire.is_consistent(before["size"], old, close["size"], close["root"], receipt["consistency"])
    assert wire.unpack(wire.unsummed(bytes.fromhex(case["envelope"]))) == [0, "board", bytes.fromhex(case["receipt"])]
    leaves = [
        wire.leaf(each["sequence"], each["time"], each["sender"], bytes.fromhex(each["frame"]))
        for each in case["records"]
    ]
    assert independent.tree_root(leaves[: close["size"]]) == close["root"]


def test_the_closing_record() -> None:
    closing = VECTORS["closing"]
    what, fields = wire.unpack(bytes.fromhex(closing["payload"]))
    body = wire.pack([fields[name] for name in ("outcome", "reason", "records", "root")])
    nonce = bytes(range(16))
    assert what == "end"
    assert fields["signature"].hex() == closing["signature"]
    assert wire.covered("end", nonce, body).hex() == closing["covered"]
    assert wire.is_signed_by(bytes.fromhex(closing["board"]), "end", nonce, body, fields["signature"])
