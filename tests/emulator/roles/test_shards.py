"""Several boards: one estimate, the same bits, and nodes that see their shard below the head of the whole run."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.board import Terms
from parley.emulator.roles.cohort import Cohort
from parley.emulator.roles.node_memory import Distrust
from parley.emulator.roles.shards.boards import HeadBoardRole, ShardBoardRole, board_of
from parley.emulator.roles.shards.ties import Ties, check_tie
from parley.emulator.simulate import simulate
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.protocols.registry import names
from tests.emulator.samples import KEY, NONCE, QUESTION, RUN, protocol, setup
from tests.emulator.sharded import Whole
from tests.vectors.make import example, golden_inputs

INPUTS = np.arange(60, dtype=np.int64) % 3


@pytest.mark.parametrize("name", names())
def test_every_protocol_gives_the_same_bits_in_shards(name: str, tmp_path: Path) -> None:
    spoken, inputs = example(name), golden_inputs(name)
    alone = simulate(spoken, inputs, KEY)
    result = Whole(tmp_path, spoken, inputs, shards=3, nodes=5, signed=False).run()
    assert encode(replace(result, run=alone.run)) == encode(alone)


@pytest.mark.parametrize(("shards", "nodes"), [(2, 2), (3, 7), (6, 6)])
def test_shards_and_signatures_change_no_bit(shards: int, nodes: int, tmp_path: Path) -> None:
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=shards, nodes=nodes)
    assert whole.run().estimate == simulate(protocol(60), INPUTS, KEY).estimate
    for cohorts in whole.cohorts.values():
        assert {cohort.state for cohort in cohorts} == {Cohort.DONE}, "every node has seen every tie"


def test_every_board_has_the_head_analysts_frames(tmp_path: Path) -> None:
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=3)
    whole.run()
    said = [frame for sender, _, frame in whole.head.records if sender == "analyst"]
    for board in whole.shards.values():
        assert [frame for sender, _, frame in board.records if sender == "analyst"] == said
        kinds = [message.kind for _, message, _ in board.records]
        assert kinds.index("roster") < kinds.index("setup"), "who has which number is settled before the nonce"


def test_a_node_goes_on_only_below_the_head_of_the_whole_run(tmp_path: Path) -> None:
    """Without a tie, the receipt of its own board is not enough."""
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=2)
    whole.run()
    board, (cohort,) = whole.shards["shard-0"], whole.cohorts["shard-0"]
    again = Whole(tmp_path / "again", protocol(60), INPUTS, shards=2, nodes=2).cohorts["shard-0"][0]
    seating = board.role.seating(cohort.node)
    assert seating is not None
    said: list[object] = []
    for _, message, _ in board.records:
        if isinstance(message, wire.Setup | wire.Announce) and getattr(message, "round", 0) <= 2:
            said += again.hear(message)
        if isinstance(message, wire.Setup):
            said += again.hear(seating)
        if isinstance(message, wire.Close) and message.round == 1:
            for each in said:
                if isinstance(each, wire.Message):
                    again.frame(each)
            said = list(again.hear(board.receipt(cohort.node, 1)))
    assert again.round == 1
    assert not [each for each in said if isinstance(each, wire.Replies)]
    tie = next(message for _, message, _ in board.records if isinstance(message, wire.Tie))
    list(again.hear(tie))
    said = list(again.hear(board.receipt(cohort.node, 1)))
    assert [each.round for each in said if isinstance(each, wire.Replies)] == [2]


def ties_of(whole: Whole, shard: str) -> list[wire.Tie]:
    return [message for _, message, _ in whole.shards[shard].records if isinstance(message, wire.Tie)]


def test_a_tie_proves_what_it_says(tmp_path: Path) -> None:
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=2)
    whole.run()
    (first, second, _), head = ties_of(whole, "shard-0"), whole.keys["board"]
    before = check_tie(first, head, NONCE)
    after = check_tie(second, head, NONCE, (before.size, before.root))
    assert after.extends
    assert not check_tie(second, head, NONCE, (before.size, bytes(32))).extends
    tally = decode(first.tally)
    assert isinstance(tally, wire.Tally)
    assert before.shard_close == tally.close
    more = encode(replace(tally, replies=tally.replies + 1), whole.signers["shard-0"], NONCE)
    for changed, what in (
        (replace(first, tally=more), "not below the head"),
        (replace(first, tally=second.tally), "no tally of this round"),
        (replace(first, receipt=second.receipt), "no receipt for this round"),
        (replace(first, tally=ties_of(whole, "shard-1")[0].tally), "no tally of this round"),
    ):
        with pytest.raises(RemoteProtocolError, match=what):
            check_tie(changed, head, NONCE)
    with pytest.raises(RemoteProtocolError, match="did not sign"):
        check_tie(first, whole.keys["analyst"], NONCE)


def test_a_node_names_a_head_that_forks_and_another_shards_tie(tmp_path: Path) -> None:
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=2)
    whole.run()
    board, head = whole.keys[board_of("shard-0")], whole.keys["board"]
    first, second, _ = ties_of(whole, "shard-0")
    with pytest.raises(RemoteProtocolError, match="another shard than its own"):
        Ties("n", "shard-0", board, head).take(ties_of(whole, "shard-1")[0], NONCE, lambda number: ())
    ties = Ties("n", "shard-0", board, head)
    ties.take(first, NONCE, lambda number: ())
    receipt = whole.shards["shard-0"].receipt("node-0", 1)
    assert ties.covers(receipt, NONCE, lambda number: ())
    other = decode(receipt.close)
    assert isinstance(other, wire.Close)
    forked = encode(replace(other, root=bytes(32)), whole.signers[board_of("shard-0")], NONCE)
    with pytest.raises(Distrust, match="another close for the whole run"):
        ties.covers(replace(receipt, close=forked), NONCE, lambda number: ())
    assert not ties.covers(replace(receipt, close=encode(other)), NONCE, lambda number: ()), "nobody signed that one"
    ties.known = ties.known[0], bytes(32)
    with pytest.raises(Distrust, match="does not extend"):
        ties.take(second, NONCE, lambda number: ())


def test_another_shards_absence_takes_the_place_of_no_tally(tmp_path: Path) -> None:
    """The head board declared shard-1 missing. That must not let shard-0 show its users any close it likes."""
    whole = Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=2)
    whole.run()
    first, head = ties_of(whole, "shard-0")[0], whole.signers["board"]
    receipt = decode(first.receipt)
    assert isinstance(receipt, wire.Receipt)
    close = decode(receipt.close)
    assert isinstance(close, wire.Close)
    said = encode(replace(close, absent=("shard-1",)), head, NONCE)
    shown = encode(replace(receipt, node="shard-1", close=said, chunks=(), sequences=(), times=(), paths=()))
    ties = Ties("n", "shard-0", whole.keys[board_of("shard-0")], whole.keys["board"])
    with pytest.raises(RemoteProtocolError, match="another shard than its own"):
        ties.take(replace(first, node="shard-1", tally=b"", receipt=shown), NONCE, lambda number: ())
    assert not ties.covers(whole.shards["shard-0"].receipt("node-0", 1), NONCE, lambda number: ())


def head_board(quorum: float = 1.0, users: int = 10) -> HeadBoardRole:
    return HeadBoardRole(Terms(run=RUN, users=users, nodes=2, quorum=quorum, join_deadline=5.0, deadline=5.0), bytes)


def shard(node: str, *stretches: tuple[int, int], pid: int = 1) -> wire.Shard:
    return wire.Shard(run=RUN, node=node, stretches=np.array(stretches), pid=pid, roster=b"roster")


def tally(node: str, replies: int, question: bytes = QUESTION) -> wire.Tally:
    close = encode(wire.Close(run=RUN, round=1, replies=replies, missing=0))
    return wire.Tally(
        run=RUN,
        round=1,
        node=node,
        replies=replies,
        sums={"y": np.array([replies])},
        rejected={},
        silent=0,
        close=close,
        question=question,
    )


def kinds(said: list[tuple[str, wire.Message]]) -> list[str]:
    return [message.kind for _, message in said]


def test_the_quorum_is_that_of_the_whole_run() -> None:
    """A shard with hardly anybody does no harm if the others make up for it."""
    for came, ends in ((4, "close"), (3, "abort")):
        board = head_board(quorum=0.8)
        board.hear("shard-0", shard("shard-0", (0, 5)), 0.0)
        assert kinds(board.hear("shard-1", shard("shard-1", (5, 10)), 0.0)) == ["shard", "roster"]
        board.hear("analyst", setup(), 0.0)
        board.hear("analyst", wire.Announce(run=RUN, round=1, broadcast={}, speakers=10), 0.0)
        board.hear("shard-0", tally("shard-0", 4, board._question), 0.0)
        said = board.hear("shard-1", tally("shard-1", came, board._question), 0.0)
        assert kinds(said) == ["tally", ends]


def test_users_who_never_came_are_not_seated() -> None:
    board = head_board(quorum=0.7)
    board.hear("shard-0", shard("shard-0", (0, 2), (3, 5)), 0.0)
    (_, roster) = board.hear("shard-1", shard("shard-1", (5, 9)), 0.0)[-1]
    assert isinstance(roster, wire.Roster)
    assert roster.users == 8
    lost = head_board(quorum=0.9)
    lost.hear("shard-0", shard("shard-0", (0, 5)), 0.0)
    assert kinds(lost.tick(6.0)) == ["abort"]


def test_the_head_board_takes_tallies_of_its_shards_alone() -> None:
    board = head_board()
    with pytest.raises(RemoteProtocolError, match="only shards"):
        board.hear("a", wire.Ready(node="a", first=0, users=5, pid=1), 0.0)
    board.hear("shard-0", shard("shard-0", (0, 5)), 0.0)
    with pytest.raises(RemoteProtocolError, match="claims users of node shard-0"):
        board.hear("shard-1", shard("shard-1", (4, 9)), 0.0)
    board.hear("shard-1", shard("shard-1", (5, 10)), 0.0)
    board.hear("analyst", setup(), 0.0)
    board.hear("analyst", wire.Announce(run=RUN, round=1, broadcast={}, speakers=10), 0.0)
    question = board._question
    with pytest.raises(RemoteProtocolError, match="no seat"):
        board.hear("shard-2", tally("shard-2", 1, question), 0.0)
    with pytest.raises(RemoteProtocolError, match="another question"):
        board.hear("shard-0", tally("shard-0", 5), 0.0)
    with pytest.raises(RemoteProtocolError, match="more replies than it has users"):
        board.hear("shard-0", tally("shard-0", 6, question), 0.0)
    assert kinds(board.hear("shard-0", tally("shard-0", 5, question), 0.0)) == ["tally"]
    assert board.hear("shard-0", tally("shard-0", 5, question), 0.0) == [], "said again"
    with pytest.raises(RemoteProtocolError, match="twice, with other sums"):
        board.hear("shard-0", tally("shard-0", 4, question), 0.0)


def test_a_shards_board_closes_with_whatever_came() -> None:
    board = ShardBoardRole(Terms(run=RUN, users=10, nodes=1, deadline=5.0, join_deadline=5.0), "shard-0")
    said = board.hear("a", wire.Ready(node="a", first=0, users=5, pid=1), 0.0)
    assert kinds(said) == ["ready", "roster"]
    assert board.nonce == b""
    board.hear("analyst", setup(), 0.0)
    assert board.nonce == NONCE, "it comes with the setup"
    board.hear("analyst", wire.Announce(run=RUN, round=1, broadcast={}, speakers=10), 0.0)
    ((_, close),) = board.tick(6.0)
    assert isinstance(close, wire.Close)
    assert (close.replies, close.absent) == (0, ("a",))
    tie = wire.Tie(run=RUN, round=1, node="shard-0", tally=b"", receipt=b"")
    with pytest.raises(RemoteProtocolError, match="not the sub-analyst"):
        board.hear("shard-1", replace(tie, node="shard-1"), 6.0)
    assert kinds(board.hear("shard-0", tie, 6.0)) == ["tie"]
    assert board.hear("shard-0", tie, 6.0) == []


def test_an_empty_shard_ends_before_it_begins() -> None:
    board = ShardBoardRole(Terms(run=RUN, users=10, nodes=1, join_deadline=5.0), "shard-0")
    board.tick(0.0)
    assert kinds(board.tick(6.0)) == ["abort"]
