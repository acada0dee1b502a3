"""Transcripts made to harm: always a verdict, never a crash, a hang, or much memory."""

import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.emulator.audit.report import Report, audit
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.records import MAGIC
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Announce, Close, Message, Ready, Refusal, Replies, Result, Roster, Setup
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.audit.recordings import Said, audited, inputs_for, record, replace_first, rewrite, said_in, write

USERS = 40
FLIPS = 1000


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=USERS)


@pytest.fixture(scope="module")
def inputs(protocol: Protocol) -> Inputs:
    return inputs_for(protocol, USERS)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, protocol: Protocol, inputs: Inputs) -> Path:
    return record(tmp_path_factory.mktemp("hostile") / "t.parley", protocol, inputs, chunk=8)


@pytest.fixture(scope="module")
def said(honest: Path) -> list[Said]:
    return said_in(honest)


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < megabytes * 2**20, f"{peak / 2**20:.0f} MiB at the peak"


def judged(path: Path, inputs: Inputs | None = None) -> Report:
    """An audit that has come to verdicts that can be written down."""
    report = audited(path, inputs)
    assert report.record()["ok"] is report.ok
    return report


def test_any_flipped_byte_is_detected(honest: Path, tmp_path: Path, protocol: Protocol) -> None:
    content = honest.read_bytes()
    generator = np.random.default_rng(29)
    places = generator.choice(len(content), FLIPS, replace=False)
    path = tmp_path / "flipped"
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= int(generator.integers(1, 256))
        path.write_bytes(flipped)
        report = audit(path, lambda name, parameters: protocol)
        integrity = report.verdicts["integrity"]
        assert integrity.verdict == "fail", f"byte {place}"
        assert integrity.reason
        assert not report.ok
        # A byte in a record is found at that record: what is named begins no later than the byte does.
        assert integrity.evidence["byte"] <= place


def test_any_cut_is_detected(honest: Path, tmp_path: Path, protocol: Protocol) -> None:
    content = honest.read_bytes()
    path = tmp_path / "cut"
    for size in np.linspace(0, len(content) - 1, 60).astype(int):
        path.write_bytes(content[:size])
        assert audit(path, lambda name, parameters: protocol).verdicts["integrity"].verdict == "fail", size


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), begins=st.booleans())
def test_bytes_that_are_no_transcript(tmp_path: Path, content: bytes, begins: bool) -> None:
    path = tmp_path / "bytes"
    path.write_bytes((MAGIC + b"\x01\x00" if begins else b"") + content)
    with at_most(64):
        assert judged(path).verdicts["integrity"].verdict == "fail"


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_messages_in_any_order(tmp_path: Path, said: list[Said], inputs: Inputs, data: st.DataObject) -> None:
    """Whole records with a whole chain whose messages were left out, repeated or moved."""
    places = data.draw(st.lists(st.integers(0, len(said) - 1), max_size=40))
    base = list(range(len(said)))
    for place in places[: len(places) // 2]:
        base.insert(place, data.draw(st.sampled_from(range(len(said)))))
    for place in places[len(places) // 2 :]:
        del base[place % len(base)]
        if not base:
            break
    path = tmp_path / "mixed"
    path.unlink(missing_ok=True)
    report = judged(write(path, [said[place] for place in base]), inputs)
    # Two nodes may be ready, or answer a round, in another order; nothing else may change.
    frames = [encode(said[place][1]) for place in base]
    original = [encode(message) for _, message in said]
    assert report.ok or frames != original
    assert not report.ok or sorted(frames) == sorted(original)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_frames_with_other_bytes(tmp_path: Path, said: list[Said], inputs: Inputs, data: st.DataObject) -> None:
    """A frame whose bytes were changed and whose checksum and chain were made to fit."""
    place = data.draw(st.integers(0, len(said) - 1))
    frame = bytearray(encode(said[place][1])[:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = decode(_checked(bytes(frame)))
    except RemoteProtocolError:
        return
    path = tmp_path / "changed"
    path.unlink(missing_ok=True)
    changed = [*said[:place], (said[place][0], message), *said[place + 1 :]]
    report = judged(write(path, changed), inputs)
    # Not every byte matters: a pid is whatever it is, and the last bits of a broadcast are another machine's rounding.
    harmless = isinstance(message, Ready | Replies) or report.verdicts["result"].verdict == "unknown"
    assert harmless or not report.ok or bytes(frame) == encode(said[place][1])[:-4]


def _checked(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


def crowded(message: Ready) -> Message:
    return replace(message, users=2**60)


def endless(message: Replies) -> Message:
    return replace(message, chunks=2**40)


def everybody(message: Replies) -> Message:
    return replace(message, users=np.arange(2**20), columns={})


def far_away(message: Replies) -> Message:
    users = np.array(message.users)
    users[-1] = users[0] + 2**31
    return replace(message, users=users)


def huge_kernel(message: Setup) -> Message:
    workload = {"statistic": "kendall", "levels": [4000, 4000]}
    return replace(message, parameters={**message.parameters, "workload": workload})


def no_levels(message: Setup) -> Message:
    return replace(message, parameters={**message.parameters, "workload": {"statistic": "kendall", "levels": [-1, 0]}})


def nested(message: Setup) -> Message:
    return replace(message, parameters={**message.parameters, "workload": {"a": {"b": {"c": {"d": 1}}}}})


def nothing_promised(message: Setup) -> Message:
    return replace(message, epsilon=0.0)


def wild_numbers(message: Announce) -> Message:
    return replace(message, broadcast={name: np.full_like(each, 1e308) for name, each in message.broadcast.items()})


def no_arrays(message: Announce) -> Message:
    return replace(message, broadcast={})


def many_rounds(message: Announce) -> Message:
    return replace(message, round=2**40)


HOSTILE: dict[str, Callable[[list[Said]], object]] = {
    "a seat for everybody on earth": replace_first(Ready, crowded),
    "chunks without end": replace_first(Replies, endless),
    "a frame that claims a million users": replace_first(Replies, everybody),
    "users far apart": replace_first(Replies, far_away),
    "a kernel of sixteen million inputs": replace_first(Setup, huge_kernel),
    "no levels": replace_first(Setup, no_levels),
    "nested parameters": replace_first(Setup, nested),
    "no epsilon": replace_first(Setup, nothing_promised),
    "broadcasts near infinity": replace_first(Announce, wild_numbers, 1),
    "broadcasts without arrays": replace_first(Announce, no_arrays, 1),
    "a late round": replace_first(Announce, many_rounds, 2),
    "an empty round": lambda said: [each for each in said if not isinstance(each[1], Replies)],
    "nothing but refusals": lambda said: [
        (sender, Refusal(run=message.run, round=message.round, node=message.node, reason="no"))
        if isinstance(message, Replies)
        else (sender, message)
        for sender, message in said
    ],
    "a close of nothing": replace_first(Close, lambda each: replace(each, replies=2**50, missing=2**50)),
    "a roster of nobody": replace_first(Roster, lambda each: replace(each, nodes=0, users=0)),
    "a result of everybody": replace_first(Result, lambda each: replace(each, replied=2**60, estimate=1e308)),
    "nothing": lambda said: [],
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_messages(honest: Path, tmp_path: Path, inputs: Inputs, what: str) -> None:
    path = rewrite(honest, tmp_path / "t", HOSTILE[what])  # type: ignore[arg-type]
    with at_most(400):
        assert not judged(path, inputs).ok


def test_crowded_seats_with_many_chunks(honest: Path, tmp_path: Path) -> None:
    """Seats that claim many users, each of which claims a million chunks, must not make the audit list them."""

    def change(said: list[Said]) -> Iterator[Said]:
        users = 2**40
        for number in range(40):
            yield f"n-{number}", Ready(node=f"n-{number}", first=number * users, users=users, pid=1)
        yield "board", Roster(run="recorded", nodes=40, users=40 * users)
        yield from (each for each in said if isinstance(each[1], Setup))
        yield from (each for each in said if isinstance(each[1], Announce) and each[1].round == 1)
        template = next(message for _, message in said if isinstance(message, Replies))
        for number in range(40):
            far = template.users + number * users
            yield f"n-{number}", replace(template, node=f"n-{number}", chunks=2**20, users=far)

    path = rewrite(honest, tmp_path / "t", change)
    with at_most(400):
        assert "more than a run has" in judged(path).verdicts["integrity"].reason
