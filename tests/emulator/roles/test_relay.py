"""The relay's role: frames pass as they came, broadcasts once, repeats to those who need them; and bundles."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.roles.relay import MOST_BUNDLED, QUIET_SECONDS, REPEAT_SECONDS, Passed, RelayRole, merged
from parley.emulator.wire import codec
from parley.emulator.wire.codec import bundle, decode, encode, envelope, seal, unbundle
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Inquiry,
    Message,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Seating,
)
from parley.emulator.wire.security import read_relays, write_relays
from tests.emulator.samples import RUN, every_message, receipt, setup
from tests.emulator.wire.test_codec import steady
from tests.nodes.test_bulk import mixes

NOBODY = np.empty(0, dtype=np.int64)


def ready(node: str) -> bytes:
    return encode(Ready(node=node, first=0, users=1, pid=1))


def replies(node: str) -> bytes:
    return encode(Replies(run=RUN, round=1, node=node, chunk=0, chunks=1, users=NOBODY, columns={}))


def sealed(sequence: int, message: Message) -> bytes:
    return envelope(sequence, "board", encode(message))


ANNOUNCE = sealed(4, Announce(run=RUN, round=1, broadcast={}))
SETUP = sealed(3, setup())


def running() -> RelayRole:
    role = RelayRole("relay-0")
    for node in ("a", "b"):
        assert role.hear_node(ready(node), None, 0.0) == Passed(up=(ready(node),))
    assert role.hear_board(sealed(2, Roster(run=RUN, nodes=2, users=2)), 1.0).down
    assert role.hear_board(SETUP, 1.0) == Passed(down=(SETUP,))
    assert role.hear_board(ANNOUNCE, 1.0) == Passed(down=(ANNOUNCE,))
    return role


def test_what_nodes_say_goes_up_byte_for_byte() -> None:
    role = running()
    refusal = encode(Refusal(run=RUN, round=1, node="b", reason="no"))
    assert role.hear_node(replies("a"), None, 2.0) == Passed(up=(replies("a"),))
    assert role.hear_node(refusal, None, 2.0) == Passed(up=(refusal,))


def test_a_repeated_broadcast_stays_at_the_relay() -> None:
    role = running()
    assert role.hear_board(ANNOUNCE, 2.0) == Passed()
    assert role.hear_board(SETUP, 2.0) == Passed()


def test_a_setup_that_comes_after_its_announcement_is_passed_on() -> None:
    role = RelayRole("relay-0")
    assert role.hear_board(ANNOUNCE, 0.0).down == (ANNOUNCE,)
    assert role.hear_board(SETUP, 0.0).down == (SETUP,)


def test_a_node_that_asks_hears_everything_again_from_the_relay_unless_it_has_answered() -> None:
    role = running()
    role.hear_node(replies("a"), None, 2.0)
    assert role.hear_node(ready("a"), None, 3.0) == Passed(up=(ready("a"),))
    assert role.hear_node(ready("b"), None, 3.0) == Passed(up=(ready("b"),), down=(SETUP, ANNOUNCE))
    assert role.hear_node(ready("b"), None, 3.0 + REPEAT_SECONDS / 2) == Passed(up=(ready("b"),))
    following = sealed(9, Announce(run=RUN, round=2, broadcast={}))
    assert role.hear_board(following, 4.0).down == (following,)
    assert role.hear_node(ready("a"), None, 5.0).down == (SETUP, following)


def test_a_node_whose_reply_was_lost_behind_the_relay_hears_everything_when_it_comes_back() -> None:
    """Found by the search over schedules: the relay took the node for one that had answered, and the round failed."""
    role = running()
    role.hear_node(replies("a"), None, 2.0)
    assert role.hear_node(ready("a"), None, 3.0) == Passed(up=(ready("a"),))
    role.hear_board(sealed(9, Reminder(run=RUN, round=1, missing={"a": ()})), 4.0)
    assert role.hear_node(ready("a"), None, 5.0) == Passed(up=(ready("a"),), down=(SETUP, ANNOUNCE))


def test_a_node_that_comes_back_after_the_end_hears_the_setup_with_it() -> None:
    role = running()
    role.hear_node(replies("a"), None, 2.0)
    abort = sealed(9, Abort(run=RUN, outcome="failed", reason="over"))
    role.hear_board(abort, 3.0)
    assert role.hear_node(ready("a"), None, 4.0) == Passed(up=(ready("a"),), down=(SETUP, ANNOUNCE, abort))


def test_a_reminder_wakes_a_host_only_if_one_of_its_nodes_is_named() -> None:
    role = running()
    ours = sealed(5, Reminder(run=RUN, round=1, missing={"b": (), "z": ()}))
    theirs = sealed(6, Reminder(run=RUN, round=1, missing={"z": ()}))
    assert role.hear_board(ours, 2.0) == Passed(down=(ANNOUNCE, ours))
    assert role.hear_board(theirs, 3.0) == Passed()
    # A node that hears nothing at all would give up.
    assert role.hear_board(theirs, 2.0 + QUIET_SECONDS).down == (ANNOUNCE, theirs)


@pytest.mark.parametrize(
    "ending",
    [
        Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=2),
        Abort(run=RUN, outcome="failed", reason="so"),
    ],
)
def test_the_end_is_heard_and_can_be_said_again(ending: Message) -> None:
    role = running()
    assert role.hear_board(sealed(5, Close(run=RUN, round=1, replies=2, missing=0)), 2.0).down
    last = sealed(6, ending)
    assert not role.over
    assert role.hear_board(last, 2.0) == Passed(down=(last,))
    assert role.over
    assert role.farewell == (last,)


def test_a_node_that_speaks_for_another_is_not_passed_on() -> None:
    with pytest.raises(RemoteProtocolError, match="b spoke in the name of a"):
        running().hear_node(replies("a"), "b", 2.0)


@pytest.mark.parametrize("message", every_message(), ids=lambda message: str(message.kind))
def test_only_words_of_user_nodes_go_up_and_only_broadcasts_down(message: Message) -> None:
    upward = ("ready", "replies", "refusal", "event", "inquiry")
    downward = ("replies", "refusal", "ready", "resume", "event", "inquiry", "pledge")
    if message.kind not in upward:
        with pytest.raises(RemoteProtocolError, match="no user node sends"):
            RelayRole("relay-0").hear_node(encode(message), None, 0.0)
    if message.kind in downward:
        with pytest.raises(RemoteProtocolError, match="feed of broadcasts"):
            RelayRole("relay-0").hear_board(sealed(0, message), 0.0)


def test_a_receipt_goes_to_its_node_alone() -> None:
    role = running()
    shown = sealed(0, receipt(node="b"))
    assert role.hear_board(shown, 2.0) == Passed(down=(shown,), only="b")
    assert role.hear_board(shown, 2.0) == Passed(down=(shown,), only="b"), "who asks again is answered again"
    assert role.hear_board(sealed(0, receipt(node="elsewhere")), 2.0) == Passed()
    asked = encode(Inquiry(run=RUN, round=1, node="b"))
    assert role.hear_node(asked, None, 2.0) == Passed(up=(asked,))
    with pytest.raises(RemoteProtocolError, match="a spoke in the name of b"):
        role.hear_node(asked, "a", 2.0)


@given(st.lists(st.binary(min_size=5, max_size=40), min_size=2, max_size=40))
def test_a_bundle_holds_its_frames(frames: list[bytes]) -> None:
    assert unbundle(bundle(frames)) == tuple(frames)


def test_other_frames_are_not_bundles() -> None:
    for message in every_message():
        assert unbundle(encode(message)) == (encode(message),)
    assert unbundle(b"") == (b"",)


@given(st.lists(st.binary(min_size=5, max_size=40), min_size=2, max_size=20), st.data())
def test_a_spoilt_bundle_is_refused(frames: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(bundle(frames))
    # Its head says that it is a bundle; the checksum guards the rest.
    at = data.draw(st.integers(min_value=5, max_value=len(whole) - 1))
    whole[at] ^= data.draw(st.integers(min_value=1, max_value=255))
    with pytest.raises(RemoteProtocolError):
        unbundle(bytes(whole))


def attempt(frame: bytes) -> tuple[bytes, ...] | None:
    try:
        return unbundle(frame)
    except RemoteProtocolError:
        return None


@given(st.lists(st.binary(min_size=0, max_size=40), max_size=20), st.data())
def test_both_ways_through_a_bundle_agree(frames: list[bytes], data: st.DataObject) -> None:
    """What a hostile relay spells otherwise, with a good checksum, is refused by the short way as by the scan."""
    body = bytearray(bundle(frames)[:-4])
    for _ in range(data.draw(st.integers(0, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    frame = seal(bytes(body))
    short = attempt(frame)
    before, codec.USUAL_BUNDLE = codec.USUAL_BUNDLE, -1
    try:
        assert attempt(frame) == short
    finally:
        codec.USUAL_BUNDLE = before


@given(mixes(), st.data())
@steady(60)
def test_replies_heard_at_once_are_replies_heard_one_by_one(frames: list[bytes], data: st.DataObject) -> None:
    """The same frames go up, in the order in which they came, and the relay knows the same of its nodes."""
    together, one_by_one, up = running(), running(), list[list[bytes]]()
    liars = data.draw(st.sets(st.integers(0, 200), max_size=3))
    senders = ["liar" if place in liars else None for place in range(len(frames))]
    heard = together.hear_replies(frames, senders)
    for role, at_once in ((together, heard), (one_by_one, set[int]())):
        passed: list[bytes] = []
        for place, (frame, sender) in enumerate(zip(frames, senders, strict=True)):
            if place in at_once:
                passed.append(frame)
                continue
            with suppress(RemoteProtocolError):
                passed += role.hear_node(frame, sender, 2.0).up
        up.append(passed)
    assert up[0] == up[1]
    assert together.nodes == one_by_one.nodes
    assert together._answered == one_by_one._answered


def test_a_bundle_inside_a_bundle_is_no_message() -> None:
    (inner, _) = unbundle(bundle([bundle([b"12345", b"12345"]), b"12345"]))
    with pytest.raises(RemoteProtocolError, match="unknown tag"):
        decode(inner)


def test_frames_are_merged_as_far_as_they_fit() -> None:
    small = [bytes([number]) * 100 for number in range(5)]
    large = bytes(MOST_BUNDLED)
    assert merged([]) == []
    assert merged([large]) == [large]
    assert merged([*small, large, *small]) == [bundle(small), large, bundle(small)]


def test_who_speaks_for_whom_is_read_back(tmp_path) -> None:  # type: ignore[no-untyped-def]
    relays = {"node-0": "relay-0", "node-1": "relay-0", "node-2": "relay-1"}
    write_relays(tmp_path / "relays", relays)
    assert read_relays(tmp_path / "relays") == relays


@pytest.mark.parametrize("relays", [{"analyst": "relay-0"}, {"relay-1": "relay-0"}, {"node-0": "node-1"}])
def test_who_cannot_stand_behind_a_relay_or_be_one_is_refused(tmp_path, relays: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput, match="relay"):
        write_relays(tmp_path / "relays", relays)


def test_only_the_node_it_is_about_is_told_of_its_seat() -> None:
    role = running()
    for name in (*sorted(role.nodes), "elsewhere"):
        told = sealed(0, Seating(run=RUN, node=name, key=bytes(32), nonce=bytes(16)))
        mine = name in role.nodes
        assert role.hear_board(told, 2.0) == (Passed(down=(told,), only=name) if mine else Passed())
