"""Taking replies together is taking them one by one: the same frames on record, the same refusals, the same state."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.coins import key_from_seed, question_of, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import Board, BoardRole, Terms
from parley.emulator.roles.seats import Chunk, owed
from parley.emulator.simulate import conversation
from parley.emulator.transport.ports import BoardPort, NodePort, Received
from parley.emulator.wire.batches import Batch, open_delivery
from parley.emulator.wire.codec import bundle, decode, encode, envelope, seal
from parley.emulator.wire.messages import Announce, Event, Message, Ready, Refusal, Replies, Resume
from parley.emulator.wire.shapes import FEWEST, Shapes, Span, as_matrix
from parley.emulator.wire.signatures import derived
from parley.nodes.analyst import AnalystNode
from parley.nodes.board import BoardNode
from parley.nodes.bulk import all_apart
from parley.nodes.state.reopen import open_record
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.samples import RUN, setup
from tests.emulator.wire.test_codec import replies, steady
from tests.emulator.wire.test_codec import seal as summed

SEATS = {"a": (0, 30), "b": (30, 70), "cc": (100, 40)}
USERS = 140
ANNOUNCE = Announce(run=RUN, round=1, broadcast={}, speakers=USERS)
QUESTION = question_of(terms_of(setup()), ANNOUNCE)
KEY = key_from_seed(5)


class Wall(BoardPort):
    """A port that keeps what is said to it; nothing comes in."""

    def __init__(self) -> None:
        self.delivered: list[bytes] = []

    @property
    def subscribers(self) -> int:
        """Everybody, so that the board waits for nobody."""
        return USERS

    async def receive(self, timeout: float) -> list[Received]:
        return []

    def publish(self, topic: bytes, frame: bytes) -> None:
        pass

    async def deliver(self, frame: bytes) -> bool:
        self.delivered.append(frame)
        return True

    def close(self) -> None:
        pass


def reply(node: str, chunk: int, /, **changes: Any) -> Replies:
    """The reply of one user, who is a chunk."""
    first, users = SEATS[node]
    fields: dict[str, Any] = {
        "run": RUN,
        "round": 1,
        "node": node,
        "chunk": chunk,
        "chunks": users,
        "users": np.array([first + chunk]),
        "columns": {"bit": np.array([chunk % 2], np.uint8), "step": np.array([chunk * 0.5])},
        "question": QUESTION,
    }
    return Replies(**{**fields, **changes})


def good(node: str, chunk: int, /, **changes: Any) -> bytes:
    return encode(reply(node, chunk, **changes), derived(KEY, node))


ALL = [good(node, chunk) for node, (_, users) in SEATS.items() for chunk in range(users)]


def odd(draw: st.DrawFn) -> bytes:
    """A frame that is not a good one: a lie, a repetition with other bytes, something else, or nothing at all."""
    node = draw(st.sampled_from(sorted(SEATS)))
    first, users = SEATS[node]
    chunk = draw(st.integers(0, users - 1))
    bits = {"bit": np.array([draw(st.integers(0, 255))], np.uint8), "step": np.array([0.25])}
    lies: list[dict[str, Any]] = [
        {"columns": bits},
        {"users": np.array([draw(st.integers(0, 2 * USERS))])},
        {"chunks": draw(st.integers(chunk + 1, 300))},
        {"question": bytes(32)},
        {"round": draw(st.integers(0, 3))},
        {"run": "another"},
        {"node": draw(st.sampled_from(["a", "b", "cc", "d", "board", "analyst"]))},
        {"users": np.array([first, first + 2]), "columns": {}},
        {"users": np.array([], np.int64), "columns": {}},
        {"columns": {"tib": np.zeros(1, np.uint8)}},
    ]
    frame = good(node, chunk, **draw(st.sampled_from(lies)))
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return frame[: draw(st.integers(0, len(frame)))]
    if kind == 1:
        body = bytearray(draw(st.sampled_from(ALL))[:-4])
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
        return summed(bytes(body))
    if kind == 2:
        return encode(draw(replies()))
    if kind == 3:
        others: list[Message] = [
            Refusal(run=RUN, round=draw(st.sampled_from([0, 1])), node=node, reason="no"),
            Ready(node=node, first=first, users=users, pid=draw(st.integers(1, 3))),
            Event(event="note", node=node, round=1, detail="a"),
        ]
        return encode(draw(st.sampled_from(others)))
    return frame


@st.composite
def mixes(draw: st.DrawFn) -> list[bytes]:
    """Many good frames in any order, some of them twice, and odd ones among them."""
    frames = ALL.copy()
    Random(draw(st.integers(0, 2**16))).shuffle(frames)
    if draw(st.booleans()):
        frames = frames[: draw(st.integers(0, len(ALL)))]
    for _ in range(draw(st.integers(0, 12))):
        extra = draw(st.sampled_from(ALL)) if draw(st.booleans()) else odd(draw)
        frames.insert(draw(st.integers(0, len(frames))), extra)
    return frames


def opened(path: Path, relays: dict[str, str] | None = None) -> BoardNode:
    terms = Terms(run=RUN, users=USERS, nodes=len(SEATS), quorum=0.01)
    board = BoardNode(BoardRole(terms), Wall(), open_record(path, RUN), path, relays)

    async def begin() -> None:
        for name, (first, users) in SEATS.items():
            await board.take(Received(encode(Ready(node=name, first=first, users=users, pid=1)), None))
        for word in (setup(), ANNOUNCE):
            await board.take(Received(encode(word), None))

    asyncio.run(begin())
    assert board.role.state is Board.OPEN
    return board


def recorded(path: Path) -> list[Record]:
    return list(TranscriptReader(path))


def outcome(board: BoardNode, path: Path) -> tuple[Any, ...]:
    """All that must be the same, whatever the numbers of the records."""
    records = recorded(path)
    frames = Counter((each.sender, each.frame) for each in records if isinstance(each.message, Replies))
    others = [(each.sender, each.message) for each in records if not isinstance(each.message, Replies)]
    events = Counter((sender, each.node, each.event, each.detail) for sender, each in others if isinstance(each, Event))
    words = [encode(each) for _, each in others if not isinstance(each, Event)]
    role = board.role
    return frames, events, words, role.state, role.replies, owed(role.seats), role.seats


def delivered(board: BoardNode) -> list[tuple[int, str, bytes]]:
    assert isinstance(board.port, Wall)
    found: list[tuple[int, str, bytes]] = []
    for sealed in board.port.delivered:
        each = open_delivery(sealed)
        if isinstance(each, Batch):
            found += zip(range(each.sequence, each.sequence + len(each)), each.senders, each.frames, strict=True)
        else:
            found.append(each)
    return found


def both_ways(received: Sequence[Received], relays: dict[str, str] | None = None) -> list[Record]:
    """Take the same frames together and one by one; the record that was written together."""
    with TemporaryDirectory() as folder:
        bulk, careful = Path(folder) / "bulk", Path(folder) / "careful"
        together, one_by_one = opened(bulk, relays), opened(careful, relays)

        async def take() -> None:
            await together.take_all(received)
            for each in received:
                if not one_by_one.role.over:
                    await one_by_one.take(each)

        asyncio.run(take())
        assert outcome(together, bulk) == outcome(one_by_one, careful)
        found = recorded(bulk)
        # What is delivered is what is on record, in order, and a board that comes back is where this one was.
        assert delivered(together) == [(each.sequence, each.sender, each.frame) for each in found]
        for board in (together, one_by_one):
            assert board.writer is not None
            board.writer.abandon()
        again = BoardNode(BoardRole(together.role.terms), Wall(), open_record(bulk, RUN), bulk, relays)
        again.restore(0.0)
        for name, seat in together.role.seats.items():
            assert replace(again.role.seats[name], pid=seat.pid) == seat
        assert again.role.state == together.role.state
        assert again.writer is not None
        again.writer.abandon()
        return found


@given(mixes())
@steady(80)
def test_any_mix_is_taken_as_one_by_one(frames: list[bytes]) -> None:
    both_ways([Received(frame, None) for frame in frames])


@given(st.data())
@steady(40)
def test_with_keys_everybody_speaks_for_themselves(data: st.DataObject) -> None:
    """A known sender may speak in its own name; a relay in the names of its nodes."""
    received = []
    for frame in data.draw(mixes()):
        try:
            claimed = getattr(decode(frame), "node", "a")
        except RemoteProtocolError:
            claimed = "a"
        liar = data.draw(st.integers(0, 30)) == 0
        received.append(Received(frame, data.draw(st.sampled_from(["a", "b", "relay-1"])) if liar else claimed))
    both_ways(received, {"b": "relay-1"})


def test_replies_of_one_shape_are_one_record() -> None:
    found = both_ways([Received(frame, None) for frame in ALL])
    said = [each for each in found if isinstance(each.message, Replies)]
    assert Counter(each.frame for each in said) == Counter(ALL)
    # Users and chunks above 127 take one byte more.
    assert len({each.offset for each in said}) <= 4
    assert found[-1].message.kind == "close"


def test_one_hostile_frame_does_not_cut_the_others_apart() -> None:
    frames = [frame for each in ALL for frame in (each, summed(each[:-5]))]
    found = both_ways([Received(frame, None) for frame in frames])
    assert len({each.offset for each in found if isinstance(each.message, Replies)}) <= 4
    assert sum(isinstance(each.message, Event) for each in found) == len(ALL)


def test_a_bundle_of_a_relay_is_taken_together() -> None:
    parts = [Received(bundle(ALL[start : start + 70]), None) for start in range(0, USERS, 70)]
    found = both_ways(all_apart(parts))
    assert len({each.offset for each in found if isinstance(each.message, Replies)}) <= 4


@given(replies(), st.integers(1, 20))
@steady(100)
def test_what_the_board_reads_of_a_chunk(message: Replies, count: int) -> None:
    frames = [encode(replace(message, chunk=number, chunks=100)) for number in range(FEWEST + count)]
    for alike in Shapes().sort(frames):
        said = [decode(frames[place]) for place in alike.places]
        assert Chunk.read_all(alike) == [Chunk.read(each) for each in said if isinstance(each, Replies)]


@pytest.mark.parametrize("torn", [True, False])
@pytest.mark.parametrize("write", range(1, 5))
def test_a_board_that_is_killed_within_a_batch_has_delivered_nothing_of_it(
    write: int, torn: bool, tmp_path: Path
) -> None:
    """It dies at its n-th write, or within it. What it delivered is on record, and users send the rest again."""
    path = tmp_path / "t"
    board = opened(path)
    assert board.writer is not None
    really, writes = board.writer.pwrite, 0

    class KilledError(BaseException):
        pass

    def mortal(descriptor: int, data: bytes | memoryview, offset: int) -> int:
        nonlocal writes
        writes += 1
        if writes == write:
            if torn:
                really(descriptor, bytes(data)[: len(data) // 2], offset)
            raise KilledError
        return really(descriptor, data, offset)

    board.writer.pwrite = mortal
    received = [Received(frame, None) for frame in ALL]
    with pytest.raises(KilledError):
        asyncio.run(board.take_all(received))
    board.writer.abandon()
    survived = [(each.sequence, each.sender, each.frame) for each in recorded(path)]
    assert delivered(board) == survived
    again = BoardNode(BoardRole(board.role.terms), Wall(), open_record(path, RUN), path)
    again.restore(0.0)

    async def go_on() -> None:
        await again.put(again.role.settle([], 0.0))
        await again.take_all(received)

    asyncio.run(go_on())
    found = recorded(path)
    assert [(each.sequence, each.sender, each.frame) for each in found][: len(survived)] == survived
    assert Counter(each.frame for each in found if isinstance(each.message, Replies)) == Counter(ALL)
    assert again.role.state is Board.CLOSED


class Ear(NodePort):
    """An analyst's port that keeps what it sends."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def receive(self, timeout: float) -> list[bytes]:
        return []

    async def send(self, frame: bytes) -> None:
        self.sent.append(decode(frame))

    def close(self) -> None:
        pass


def whole_record() -> tuple[Any, list[tuple[str, bytes]]]:
    """A conversation in which every user is a frame: who said what."""
    protocol = design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=40)
    inputs, said = np.arange(40, dtype=np.int64) % 3, list[tuple[str, bytes]]()
    for sender, message in conversation(protocol, inputs, KEY, run=RUN, nodes=2):
        if not isinstance(message, Replies):
            said.append((sender, encode(message)))
            continue
        for row, user in enumerate(message.users.tolist()):
            columns = {name: column[row : row + 1] for name, column in message.columns.items()}
            one = replace(message, chunk=user % 20, chunks=20, users=message.users[row : row + 1], columns=columns)
            said.append((sender, encode(one)))
    return protocol, said


PROTOCOL, SAID = whole_record()


def deliveries(cuts: set[int]) -> list[bytes]:
    """The record cut here and there; what lies between two cuts is a batch where it can be one."""
    found: list[bytes] = []
    start = 0
    for end in (*sorted(cuts), len(SAID)):
        while start < end:
            group = Shapes().sort([frame for _, frame in SAID[start:end]])
            alike = next((each for each in group if each.places.tolist() == list(range(len(each)))), None)
            if alike is None:
                found.append(envelope(start, *SAID[start]))
                start += 1
            else:
                name = alike.shape.node
                batch = Batch(sequence=start, time_ns=0, name=Span(*name), matrix=as_matrix([*_rows(alike.frames)]))
                found.append(seal(batch.payload))
                start += len(alike)
    return found


def _rows(matrix: Any) -> list[bytes]:
    return [row.tobytes() for row in matrix]


@given(st.data())
@steady(60)
def test_an_analyst_hears_the_same_in_columns(data: st.DataObject) -> None:
    """In any order, twice, in pieces that overlap: whoever asks for what is missing ends where one by one ends."""
    careful = AnalystRole(PROTOCOL, RUN)
    for _, frame in SAID:
        careful.hear(decode(frame))
    pieces = [
        piece
        for _ in range(2)
        for piece in deliveries(data.draw(st.sets(st.integers(0, len(SAID)), min_size=1, max_size=9)))
    ]
    node = AnalystNode(AnalystRole(PROTOCOL, RUN), Ear())
    for piece in data.draw(st.permutations(pieces)):
        node._take(piece)

    async def ask() -> list[Message]:
        assert isinstance(node.port, Ear)
        node.port.sent.clear()
        await node._ask_again()
        return node.port.sent

    for _ in range(len(SAID)):
        for wanted in asyncio.run(ask()):
            assert isinstance(wanted, Resume)
            for sequence in range(wanted.sequence, len(SAID))[: wanted.count or None]:
                node._take(envelope(sequence, *SAID[sequence]))
        if node.expected == len(SAID):
            break
    assert node.expected == len(SAID)
    assert not node._early
    assert node.role.state is careful.state
    assert node.role.replied == careful.replied == 3 * 40
    assert not node.role.pending


def test_the_deliveries_of_the_test_hold_batches(tmp_path: Path) -> None:
    opened_all = [open_delivery(each) for each in deliveries(set())]
    assert sum(isinstance(each, Batch) for each in opened_all) >= 3
    with TranscriptWriter.create(tmp_path / "t", RUN) as writer:
        for each in opened_all:
            if isinstance(each, Batch):
                writer.append_batch(each.name, each.matrix, 1)
            else:
                writer.append(each[1], each[2], 1)
    assert [each.frame for each in TranscriptReader(tmp_path / "t")] == [frame for _, frame in SAID]
