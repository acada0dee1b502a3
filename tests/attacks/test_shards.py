"""Shards that lie: sums that nobody can have said, another question for one shard alone, and users who make noise."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.audit.report import audit
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.node_memory import Answered, Commit, Distrust, Memory
from parley.emulator.roles.shards.sub_analyst import SubAnalystRole
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.signatures import Signer, derived
from parley.protocols.registry import build, names
from tests.attacks.parties import spoken
from tests.emulator.samples import KEY, RUN, protocol
from tests.emulator.sharded import FILE, Whole

USERS = 60
Sums = dict[str, np.ndarray]

IMPOSSIBLE: dict[str, Callable[[Sums], Sums]] = {
    "most": lambda sums: {name: np.full_like(total, 2**63 - 1) for name, total in sums.items()},
    "least": lambda sums: {name: np.full_like(total, -(2**63)) for name, total in sums.items()},
    "unsigned": lambda sums: {name: np.full(total.shape, 2**64 - 1, np.uint64) for name, total in sums.items()},
    "short": lambda sums: {name: np.zeros_like(total, np.int8) for name, total in sums.items()},
    "others": lambda sums: {f"{name}.other": total for name, total in sums.items()},
    "none": lambda sums: {},
}


def lying(change: Callable[[wire.Tally], wire.Tally]) -> type[SubAnalystRole]:
    """Sub-analysts of which that of shard-1 answers the last round with a lie, under its own signature."""

    class Liar(SubAnalystRole):
        def _close(self, frame: bytes) -> None:
            super()._close(frame)
            assert self.answer is not None
            assert self._sums is not None
            if self.node == "shard-1" and self.round == len(self._sums.protocol.rounds):
                self.answer = change(self.answer)
                self._answer_frame = encode(self.answer, self.signer, self.nonce)

    return Liar


@pytest.mark.parametrize(
    ("name", "lie"), [*((name, "least") for name in names()), *(("one-round-tuned", lie) for lie in IMPOSSIBLE)]
)
def test_sums_that_no_replies_can_have_count_for_nothing(name: str, lie: str, tmp_path: Path) -> None:
    """A shard spoils neither the estimate of the others nor the analyst, whatever it claims that its users said."""
    chosen = spoken(name)
    liar = lying(lambda said: replace(said, sums=IMPOSSIBLE[lie](dict(said.sums))))
    inputs = np.arange(40, dtype=np.int64) % chosen.inputs
    result = Whole(tmp_path, chosen, inputs, shards=2, nodes=4, signed=False, sub_analyst=liar).run()
    assert set(result.details["rejected"]) == {"shard-1"}
    verdict = audit(tmp_path / FILE, build).verdicts["result"]
    assert (verdict.verdict, verdict.reason.split(":")[0]) == ("fail", "shard-1")


def test_a_tally_counts_as_many_replies_as_the_close_below_it(tmp_path: Path) -> None:
    for change in ({"replies": 19}, {"rejected": {"node-0": 1}}, {"rejected": {"node-0": 2**61}}):
        changed = lying(lambda said, change=change: replace(said, **change))  # type: ignore[misc]
        whole = Whole(tmp_path / str(len(str(change))), protocol(USERS), np.arange(USERS) % 3, shards=3, nodes=6,
                      sub_analyst=changed)  # fmt: skip
        with pytest.raises(RemoteProtocolError, match="counts other replies than its board has closed with"):
            whole.run()
    with pytest.raises(RemoteProtocolError, match="not the name of a node"):
        replace(_tally(whole), rejected={"\x1b[31m": 1})


def _tally(whole: Whole) -> wire.Tally:
    return next(message for _, message, _ in whole.head.records if isinstance(message, wire.Tally))


def test_users_who_claim_to_be_silent_by_the_billion_silence_nobody(tmp_path: Path) -> None:
    """What a node says of its wallets was added up without bound, until no tally could hold it and a shard was out."""
    whole = Whole(tmp_path, protocol(USERS), np.arange(USERS) % 3, shards=3, nodes=6)
    board = whole.shards["shard-0"]
    told = board.role.hear

    def noisy(sender: str, message: wire.Message, now: float) -> list[tuple[str, wire.Message]]:
        said = told(sender, message, now)
        if isinstance(message, wire.Announce):
            claims = [("node-0", wire.wallet_event("node-0", message.round, 10**15 - 1 - each)) for each in range(5000)]
            claims.append(("x", wire.wallet_event("x", message.round, 7)))
            return said + claims
        return said

    board.role.hear = noisy  # type: ignore[method-assign]
    result = whole.run()
    # Ten users, in each of three rounds: what a node says of its own users, and no more.
    assert result.details["silent_for_wallets"] == 30
    assert result.replied == 3 * USERS


def test_the_analyst_of_one_board_counts_no_more_silent_users_than_there_are() -> None:
    role = AnalystRole(protocol(USERS), RUN)
    role.hear(wire.Ready(node="n", first=0, users=USERS, pid=1))
    (_, announce) = role.hear(wire.Roster(run=RUN, nodes=1, users=USERS, nonce=bytes(16)))
    assert isinstance(announce, wire.Announce)
    for message in role.pending.copy():
        role.hear(message)
    for number, node in ((1, "n"), (2**40, "n"), (1, "stranger")):
        role.hear(wire.wallet_event(node, number, 10**15 - 1))
    assert role._silent.total() == USERS


class Forked(SubAnalystRole):
    """Shard-1 hears what the head analyst signed for it alone, and its sub-analyst believes everything."""

    def told(self, message: wire.Message, frame: bytes) -> None:
        analyst = derived(KEY, "analyst")
        if self.node == "shard-1" and isinstance(message, wire.Setup | wire.Announce):
            message, frame = self.other(message, frame, analyst)
        super().told(message, frame)

    def other(self, message: wire.Message, frame: bytes, analyst: Signer) -> tuple[wire.Message, bytes]:
        raise NotImplementedError

    def _receive(self, receipt: wire.Receipt, frame: bytes) -> None:
        if self._keys is not None and receipt.round == self.round and not self._is_open and self.answer is not None:
            told = wire.Tie(run=RUN, round=self.round, node=self.node, tally=self._answer_frame, receipt=frame)
            self._tie = told


class OtherNonce(Forked):
    def other(self, message: wire.Message, frame: bytes, analyst: Signer) -> tuple[wire.Message, bytes]:
        changed = replace(message, nonce=bytes(16)) if isinstance(message, wire.Setup) else message
        return changed, encode(changed, analyst, bytes(16))


class OtherBroadcast(Forked):
    def other(self, message: wire.Message, frame: bytes, analyst: Signer) -> tuple[wire.Message, bytes]:
        if not isinstance(message, wire.Announce) or message.round != 2:
            return message, frame
        changed = replace(message, broadcast={name: each / 2 for name, each in message.broadcast.items()})
        return changed, encode(changed, analyst, self.nonce)


class Replayed(SubAnalystRole):
    """Whatever the head analyst says to shard-1 is followed by what it said in another run of this name."""

    def told(self, message: wire.Message, frame: bytes) -> None:
        super().told(message, frame)
        if self.node == "shard-1" and isinstance(message, wire.Setup | wire.Announce) and self._setup is not None:
            for each in (replace(self._setup, nonce=bytes(16)), message):
                with suppress(RemoteProtocolError):
                    super().told(each, encode(each, derived(KEY, "analyst"), bytes(16)))


def test_what_was_signed_for_another_run_of_this_name_is_not_passed_on(tmp_path: Path) -> None:
    whole = Whole(tmp_path, protocol(USERS), np.arange(USERS) % 3, shards=3, nodes=6, sub_analyst=Replayed)
    whole.run()
    assert audit(tmp_path / FILE, build, keys=whole.keys).verdicts["authorship"].verdict == "pass"


@pytest.mark.parametrize(("forked", "most"), [(OtherNonce, 1), (OtherBroadcast, 2)])
def test_a_question_for_one_shard_alone_is_the_last_one_it_answers(
    forked: type[Forked], most: int, tmp_path: Path
) -> None:
    """The head analyst, the shard's board and its sub-analyst lie together; the head board does not."""
    whole = Whole(tmp_path, protocol(USERS), np.arange(USERS) % 3, shards=3, nodes=6, sub_analyst=forked)
    with pytest.raises(RemoteProtocolError):
        whole.run()
    said = [decode(record.frame) for record in TranscriptReader(whole.shards["shard-1"].writer.path)]
    rounds = [message.round for message in said if isinstance(message, wire.Replies)]
    assert max(rounds) == most
    assert len(rounds) == len({(m.node, m.round, m.chunk) for m in said if isinstance(m, wire.Replies)})


@pytest.mark.parametrize("lives", [1, 2])
def test_a_node_that_was_killed_takes_no_tie_of_another_history(lives: int, tmp_path: Path) -> None:
    """Two whole runs under the same keys and nonce, in which other shards said other things: a restart and a lie."""
    inputs = np.arange(USERS) % 3
    one = Whole(tmp_path / "one", protocol(USERS), inputs, shards=3, nodes=6)
    cohort, noted = one.cohorts["shard-0"][0], list[Commit]()
    note = cohort._note

    def kept(commit: Commit) -> Commit:
        noted.append(commit)
        return note(commit)

    cohort._note = kept  # type: ignore[method-assign]
    one.run()
    other = Whole(tmp_path / "other", protocol(USERS), np.where(np.arange(USERS) < 20, inputs, 0), shards=3, nodes=6)
    other.run()
    (lie,) = [each for _, each, _ in other.shards["shard-0"].records if isinstance(each, wire.Tie) and each.round == 2]
    (true,) = [each for _, each, _ in one.shards["shard-0"].records if isinstance(each, wire.Tie) and each.round == 2]
    until = next(place for place, each in enumerate(noted) if isinstance(each, Answered) and each.round == 2)
    said = [each for _, each, _ in one.shards["shard-0"].records if isinstance(each, wire.Setup | wire.Announce)]
    for life in range(lives):
        # Only what is on disk survives.
        remembered = Memory()
        for commit in noted[: until + 1]:
            remembered.note(commit)
        again = Whole(tmp_path / f"life-{life}", protocol(USERS), inputs, shards=3, nodes=6).cohorts["shard-0"][0]
        node = CohortRole(
            node=again.node, first=0, inputs=inputs[:10], key=KEY, consent=again.consent, build=again._build,
            memory=remembered, signer=again.signer,
        )  # fmt: skip
        heard = [each for message in said for each in node.hear(message)]
        again_said = {node.frame(each) for each in heard if isinstance(each, wire.Replies)}
        assert again_said <= {frame for _, _, frame in one.shards["shard-0"].records}, "the same answers again"
        with pytest.raises(Distrust, match="the head of the whole run does not extend the one before"):
            list(node.hear(lie))
        assert list(node.hear(one.shards["shard-0"].receipt(node.node, 2))) == []
        assert remembered.round == 2
    list(node.hear(true))
    told = list(node.hear(one.shards["shard-0"].receipt(node.node, 2)))
    assert [each.round for each in told if isinstance(each, wire.Replies)] == [3]


def test_a_boards_record_out_of_order_is_refused_by_its_sub_analyst(tmp_path: Path) -> None:
    """Replies before their question, a close before it, a round too many: a traceback in the audit of such a record."""
    whole = Whole(tmp_path, protocol(USERS), np.arange(USERS) % 3, shards=3, nodes=6)
    whole.run()
    records = [(message, frame) for _, message, frame in whole.shards["shard-0"].records]
    asked = [each for each in records if isinstance(each[0], wire.Announce)]
    setup = next(each for each in records if isinstance(each[0], wire.Setup))
    for kind in (wire.Replies, wire.Announce, wire.Close):
        wrong = next(each for each in reversed(records) if isinstance(each[0], kind))
        for before in ([], [setup], [setup, *([] if kind is not wire.Announce else [asked[0]])]):
            sub = SubAnalystRole(node="shard-0", run=RUN, pid=1, build=whole.subs["shard-0"]._build)
            for each in before:
                sub.hear(*each)
            with pytest.raises(RemoteProtocolError):
                sub.hear(*wrong)
