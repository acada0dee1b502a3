"""Honest runs pass every check; each kind of tampering fails the check that is there for it, by name."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parley.emulator.coins import question_of, terms_of
from parley.emulator.protocol import Inputs
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import BoardRole, Terms
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Setup,
)
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall
from tests.emulator.audit.recordings import (
    RUN,
    Said,
    audited,
    inputs_for,
    record,
    replace_first,
    rewrite,
    said_in,
    write,
)

USERS = 120


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return inputs_for(design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS), USERS)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, inputs: Inputs) -> Path:
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    return record(tmp_path_factory.mktemp("honest") / "t.parley", protocol, inputs, nodes=3, chunk=25)


def alter(replies: Replies, **columns: NDArray[Any]) -> Replies:
    return replace(replies, columns={**replies.columns, **columns})


def test_an_honest_run_passes(honest: Path, inputs: Inputs) -> None:
    report = audited(honest, inputs)
    assert report.named("unknown") == ["authorship", "side_channels"], "nobody signed, and six frames have no order"
    assert not report.named("fail")
    assert report.ok
    said = report.record()
    assert said["rounds"]["declared"] == said["rounds"]["observed"] == 3
    assert said["rounds"]["interaction"] == dict.fromkeys(("declared", "observed"), "fully interactive")
    assert said["rounds"]["transport"] == {"ready": 3, "roster": 1, "setup": 1}
    assert 0 < said["privacy"]["max_loss"] <= said["privacy"]["claim"] == 1.0
    assert said["privacy"]["users"] == USERS == sum(said["privacy"]["histogram"]["counts"])


def test_without_a_witness_two_checks_are_unknown(honest: Path) -> None:
    report = audited(honest)
    unknown = {name for name, each in report.verdicts.items() if each.verdict == "unknown"}
    assert unknown == {"authorship", "fidelity", "side_channels"}
    assert report.ok


def test_transport_is_counted_apart(honest: Path, tmp_path: Path, inputs: Inputs) -> None:
    def remind(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            yield sender, message
            if isinstance(message, Announce):
                yield "board", Reminder(run=message.run, round=message.round, missing={"node-0": ()})
                yield "board", Event(event="drop", node="node-1", round=message.round, detail="lost")

    report = audited(rewrite(honest, tmp_path / "t", remind), inputs)
    assert report.ok
    assert report.record()["rounds"]["observed"] == 3
    assert report.record()["rounds"]["transport"] == {"ready": 3, "roster": 1, "setup": 1, "reminder": 3, "event": 3}


def swap_sender(said: list[Said]) -> Iterator[Said]:
    for sender, message in said:
        yield "node-1" if isinstance(message, Replies) and sender == "node-0" else sender, message


def drop_close(said: list[Said]) -> Iterator[Said]:
    dropped = False
    for sender, message in said:
        if isinstance(message, Close) and not dropped:
            dropped = True
            continue
        yield sender, message


def repeat_replies(said: list[Said]) -> Iterator[Said]:
    for sender, message in said:
        yield sender, message
        if isinstance(message, Replies) and message.chunk == 0:
            yield sender, message


INTEGRITY = {
    "another sender": (swap_sender, "who may not send one"),
    "a close left out": (drop_close, "before round 1 was closed"),
    "replies twice": (repeat_replies, "repeats another"),
    "a wrong count": (replace_first(Close, lambda each: replace(each, replies=7)), "with 7 replies"),
    "users that were not there": (replace_first(Roster, lambda each: replace(each, users=999)), "a roster of 999"),
    "another run": (replace_first(Announce, lambda each: replace(each, run="other")), "another run"),
    "users of another node": (
        replace_first(Replies, lambda each: replace(each, users=each.users + 60)),
        "users that are not its own",
    ),
    "a round left out": (replace_first(Announce, lambda each: replace(each, round=3), 1), "round 3 announced"),
    "a node called board": (
        lambda said: [("board", Ready(node="board", first=500, users=1, pid=1)), *said],
        "calls itself board",
    ),
    "a result before the end": (
        lambda said: [*said[:6], said[-1], *said[6:]],
        "result is not expected",
    ),
}


@pytest.mark.parametrize("what", INTEGRITY)
def test_a_record_no_board_wrote(honest: Path, tmp_path: Path, what: str) -> None:
    change, expected = INTEGRITY[what]
    report = audited(rewrite(honest, tmp_path / "t", change))
    assert report.verdicts["integrity"].verdict == "fail"
    assert expected in report.verdicts["integrity"].reason
    assert report.verdicts["integrity"].evidence["record"] is not None
    assert not report.ok


def test_an_open_record_fails_and_is_still_audited(honest: Path, tmp_path: Path, inputs: Inputs) -> None:
    report = audited(write(tmp_path / "t", said_in(honest)[:-1], None), inputs)
    assert report.verdicts["integrity"].verdict == "fail"
    assert report.verdicts["integrity"].evidence["truncated"]
    assert report.verdicts["privacy"].verdict == "pass"
    assert report.verdicts["result"].verdict == "unknown"


def test_a_failed_run_is_a_good_record(honest: Path, tmp_path: Path) -> None:
    said = said_in(honest)
    cut = next(place for place, (_, message) in enumerate(said) if isinstance(message, Close))
    abort = ("board", Abort(run="recorded", outcome="failed", reason="below the quorum"))
    report = audited(write(tmp_path / "t", [*said[: cut - 1], abort], "failed"))
    assert report.ok
    assert report.record()["rounds"]["observed"] == 1
    assert report.verdicts["result"].verdict == "unknown"


def test_an_outcome_that_is_not_the_last_word(honest: Path, tmp_path: Path) -> None:
    report = audited(write(tmp_path / "t", said_in(honest), "failed"))
    assert "closed as failed but its last word is result" in report.verdicts["integrity"].reason


def test_an_altered_reply_is_named(honest: Path, tmp_path: Path) -> None:
    def spoil(message: Replies) -> Replies:
        index = np.array(message.columns["y_R.index"])
        index[3] = 200
        return alter(message, **{"y_R.index": index})

    report = audited(rewrite(honest, tmp_path / "t", replace_first(Replies, spoil)))
    privacy = report.verdicts["privacy"]
    assert privacy.verdict == "fail"
    assert privacy.evidence["offences"][0] == {
        "user": 3,
        "round": 1,
        "record": 6,
        "what": "a reply outside the output space",
    }


def test_a_reply_of_the_wrong_type_is_named(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Replies, lambda each: replace(each, columns={"value": np.zeros(len(each.users))}))
    privacy = audited(rewrite(honest, tmp_path / "t", change)).verdicts["privacy"]
    assert privacy.verdict == "fail"
    assert "expected the arrays" in privacy.reason
    assert "user 0, round 1" in privacy.reason


def test_a_second_answer_with_other_bytes_is_named(honest: Path, tmp_path: Path) -> None:
    def again(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            yield sender, message
            if isinstance(message, Replies) and message.round == 2 and message.users[0] == 0:
                step = np.array(message.columns["a.step"])
                step[5] += 1
                yield sender, alter(message, **{"a.step": step})

    privacy = audited(rewrite(honest, tmp_path / "t", again)).verdicts["privacy"]
    assert privacy.verdict == "fail"
    assert "user 5, round 2" in privacy.reason
    assert "a second answer with other bytes" in privacy.reason
    assert len(privacy.evidence["offences"]) == 1


def test_a_smaller_claim_than_the_noise_keeps_is_caught(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Setup, lambda each: replace(each, epsilon=0.1))
    report = audited(rewrite(honest, tmp_path / "t", change))
    privacy = report.verdicts["privacy"]
    assert "the setup claims epsilon 0.1" in privacy.reason
    assert privacy.evidence["above_claim"] == USERS
    assert privacy.evidence["users_above"][0]["user"] == 0


def test_a_broadcast_users_should_have_refused(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Announce, lambda each: replace(each, broadcast={"mu": 100 + each.broadcast["mu"]}), 1)
    privacy = audited(rewrite(honest, tmp_path / "t", change)).verdicts["privacy"]
    assert "mu is not in R^Delta" in privacy.reason


def test_rounds_are_counted_not_believed(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Setup, lambda each: replace(each, rounds=2))
    rounds = audited(rewrite(honest, tmp_path / "t", change)).verdicts["rounds"]
    assert rounds.verdict == "fail"
    assert rounds.evidence["observed"] == 3


@pytest.mark.parametrize("name", ["estimate", "predicted_rmse", "low"])
def test_another_result_is_caught(honest: Path, tmp_path: Path, name: str) -> None:
    change = replace_first(Result, lambda each: replace(each, **{name: getattr(each, name) + 1e-6}))
    report = audited(rewrite(honest, tmp_path / "t", change))
    assert report.verdicts["result"].verdict == "fail"
    assert report.verdicts["integrity"].verdict == "pass"
    assert not report.ok


def test_the_last_bit_is_not_a_pass_and_not_an_accusation(honest: Path, tmp_path: Path) -> None:
    """Another processor may round differently; that much is said, and that it is no more than that."""
    change = replace_first(Result, lambda each: replace(each, estimate=np.nextafter(each.estimate, 9.0).item()))
    result = audited(rewrite(honest, tmp_path / "t", change)).verdicts["result"]
    assert result.verdict == "unknown"
    assert "up to rounding" in result.reason


def test_a_reply_changed_within_the_output_space_changes_the_result(honest: Path, tmp_path: Path) -> None:
    def nudge(message: Replies) -> Replies:
        return alter(message, **{"v.step": message.columns["v.step"] + np.int32(1)})

    last = sum(isinstance(message, Replies) for _, message in said_in(honest)) - 1
    report = audited(rewrite(honest, tmp_path / "t", replace_first(Replies, nudge, last)))
    assert report.verdicts["privacy"].verdict == "pass"
    assert report.verdicts["result"].verdict == "fail"


def test_blocks_and_samples_do_not_change_a_loss(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = audited(honest).verdicts["privacy"].evidence
    sampled = audited(honest, sample=30).verdicts["privacy"].evidence
    monkeypatch.setattr("parley.emulator.audit.privacy.MOST_BYTES", 20 * 9 * 8)
    parts = audited(honest).verdicts["privacy"].evidence
    assert {**parts} == {**whole}
    monkeypatch.undo()
    monkeypatch.setattr("parley.emulator.audit.privacy.MOST_ROWS", 7)
    assert {**audited(honest).verdicts["privacy"].evidence} == {**whole}
    assert sampled["users"] == 30
    assert sampled["population"] == USERS
    assert sampled["max_loss"] <= whole["max_loss"]


def test_an_unknown_protocol_is_not_good(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Setup, lambda each: replace(each, protocol="no-such"))
    report = audited(rewrite(honest, tmp_path / "t", change))
    assert report.verdicts["privacy"].verdict == "unknown"
    assert "no-such" in report.verdicts["privacy"].reason
    assert not report.ok


def test_losses_do_not_depend_on_how_replies_were_cut_into_frames(tmp_path: Path, inputs: Inputs) -> None:
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    alone = record(tmp_path / "alone.parley", protocol, inputs, nodes=USERS)
    together = record(tmp_path / "together.parley", protocol, inputs, nodes=1)
    one, other = (audited(path).record()["privacy"] for path in (alone, together))
    assert one == other


def test_losses_do_not_depend_on_the_order_in_which_users_spoke(
    tmp_path: Path, inputs: Inputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users of many blocks are in one part of the record: the last of a round come first, and so on."""
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    said = said_in(record(tmp_path / "alone.parley", protocol, inputs, nodes=USERS))
    usual = audited(tmp_path / "alone.parley").record()["privacy"]
    backwards = list(said)
    for number in range(1, 4):
        of_round = [place for place, (_, each) in enumerate(said) if isinstance(each, Replies) and each.round == number]
        for place, other in zip(of_round, reversed(of_round), strict=True):
            backwards[place] = said[other]
    monkeypatch.setattr("parley.emulator.audit.privacy.MOST_ROWS", 7)
    assert audited(write(tmp_path / "backwards.parley", backwards)).record()["privacy"] == usual


def test_an_offence_in_a_frame_of_one_is_named_with_its_record(tmp_path: Path, inputs: Inputs) -> None:
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    said = said_in(record(tmp_path / "alone.parley", protocol, inputs, nodes=USERS))
    place = next(number for number, (_, each) in enumerate(said) if isinstance(each, Replies)) + 7
    sender, reply = said[place]
    assert isinstance(reply, Replies)
    column = "y_L.seed" if "y_L.seed" in reply.columns else min(reply.columns)
    said.insert(place + 1, (sender, alter(reply, **{column: reply.columns[column] ^ 1})))
    privacy = audited(write(tmp_path / "twice.parley", said)).record()["privacy"]
    assert privacy["verdict"] == "fail"
    assert privacy["offences"][0]["record"] == place + 1
    assert privacy["offences"][0]["user"] == int(reply.users[0])
    assert privacy["offences"][0]["what"] == "a second answer with other bytes"


def with_counts(**changes: object) -> Any:
    return replace_first(Close, lambda each: replace(each, **changes))


RECOUNTED = {
    "somebody absent who is not": (with_counts(absent=("node-0",)), "integrity", "'node-0' absent"),
    "replies missing that are not": (with_counts(missing=5), "integrity", "5 replies missing"),
    "more nodes than came": (
        replace_first(Roster, lambda each: replace(each, nodes=4)),
        "integrity",
        "on 4 nodes",
    ),
    "other speakers": (
        replace_first(Announce, lambda each: replace(each, speakers=7)),
        "result",
        "a different announce",
    ),
    "another question": (
        replace_first(Replies, lambda each: replace(each, question=bytes(32)), 6),
        "integrity",
        "answers another question than that of round 2",
    ),
    "a chunk that is not there": (
        replace_first(Replies, lambda each: replace(each, chunks=each.chunks + 1)),
        "integrity",
        "changed its number of chunks",
    ),
    "another number of replies": (
        replace_first(Result, lambda each: replace(each, replied=1_000_000)),
        "result",
        "different result",
    ),
}


@pytest.mark.parametrize("what", RECOUNTED)
def test_what_the_record_counts_is_counted_again(honest: Path, tmp_path: Path, what: str) -> None:
    change, check, expected = RECOUNTED[what]
    report = audited(rewrite(honest, tmp_path / "t", change))
    assert report.verdicts[check].verdict == "fail"
    assert expected in report.verdicts[check].reason
    assert not report.ok


def test_seats_that_claim_more_users_than_speak_are_caught(tmp_path: Path, inputs: Inputs) -> None:
    """A record of 120 users passed off as one of a million, every count made to fit."""
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    alone = record(tmp_path / "t", protocol, inputs, nodes=1)

    def relabel(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            if isinstance(message, Ready | Roster):
                message = replace(message, users=10**6)
            elif isinstance(message, Announce):
                message = replace(message, speakers=10**6)
            elif isinstance(message, Close):
                message = replace(message, missing=10**6 - USERS)
            yield sender, message

    report = audited(rewrite(alone, tmp_path / "u", relabel))
    assert report.verdicts["integrity"].verdict == "pass"
    assert report.verdicts["rounds"].reason == "node-0 answered round 1 for 120 of its 1000000 users who were to speak"
    assert not report.ok


def test_users_beyond_number_are_not_counted_one_by_one(tmp_path: Path, inputs: Inputs) -> None:
    """Each node claims what one may claim, all together more: a short record would keep its reader busy for days."""
    protocol = design("two-round-tuned", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    alone = record(tmp_path / "t", protocol, inputs, nodes=4)

    def relabel(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            if isinstance(message, Ready):
                message = replace(message, first=message.first << 30, users=2**30)
            yield sender, message

    verdict = audited(rewrite(alone, tmp_path / "u", relabel)).verdicts["rounds"]
    assert (verdict.verdict, verdict.reason) == ("fail", "nodes claim 4294967296 users, more than a run has")


def test_a_closing_record_gives_the_reason_of_the_last_word(honest: Path, tmp_path: Path) -> None:
    abort = Abort(run="recorded", outcome="failed", reason="below the quorum")
    with TranscriptWriter.create(tmp_path / "t", "recorded") as writer:
        for number, (sender, message) in enumerate([*said_in(honest)[:5], ("board", abort)]):
            writer.append(sender, encode(message), number)
        writer.close("failed", "all is well")
    assert "closed because 'all is well'" in audited(tmp_path / "t").verdicts["integrity"].reason


def test_a_restart_fits_the_process_it_speaks_of(honest: Path, tmp_path: Path) -> None:
    def restarted(*details: str) -> Any:
        def change(said: list[Said]) -> Iterator[Said]:
            for sender, message in said:
                yield sender, message
                if isinstance(message, Roster):
                    for detail in details:
                        yield "board", Event(event="restart", node="node-1", round=0, detail=detail)

        return change

    good = restarted("pid 0 is now pid 7", "pid 7 is now pid 9", "pid 0 is now pid 9")
    assert audited(rewrite(honest, tmp_path / "t", good)).ok
    wrong = audited(rewrite(honest, tmp_path / "u", restarted("pid 0 is now pid 7", "pid 8 is now pid 9")))
    assert "a restart of 'node-1' that does not fit" in wrong.verdicts["integrity"].reason


def test_a_reminder_names_what_is_owed(honest: Path, tmp_path: Path) -> None:
    def remind(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            yield sender, message
            if isinstance(message, Announce):
                yield "board", Reminder(run=message.run, round=message.round, missing={"node-0": (1,)})

    reason = audited(rewrite(honest, tmp_path / "t", remind)).verdicts["integrity"].reason
    assert "a reminder that 'node-0' owes other chunks" in reason


def test_a_time_that_goes_back_is_a_warning(honest: Path, tmp_path: Path) -> None:
    def written(path: Path, said: list[Said]) -> list[str]:
        with TranscriptWriter.create(path, "recorded") as writer:
            for number, (sender, message) in enumerate(said):
                writer.append(sender, encode(message), 10**12 + (-(10**9) if number == 9 else number))
            writer.close("completed")
        found: list[str] = audited(path).verdicts["integrity"].evidence["warnings"]
        return found

    said = said_in(honest)
    found = [each.partition(",")[0] for each in written(tmp_path / "t", said)]
    assert found == ["record 9 is 1 s older than the one before it"]
    event = Event(event="restart", node="launcher", round=1, detail="board was killed and is started again")
    assert written(tmp_path / "u", [*said[:10], ("launcher", event), *said[10:]]) == []


def test_rounding_is_no_lie_where_replies_were_rejected(honest: Path, tmp_path: Path) -> None:
    """One ulp in a result that names rejected replies: as with any other result, another processor may round so."""

    def spoil(message: Replies) -> Replies:
        index = np.array(message.columns["y_R.index"])
        index[3] = 200
        return alter(message, **{"y_R.index": index})

    def conclude(said: list[Said]) -> Iterator[Said]:
        role = AnalystRole(design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS), "recorded")
        terms, question = terms_of(next(each for _, each in said if isinstance(each, Setup))), b""
        for sender, message in replace_first(Replies, spoil)(said):
            own = role.pending[0] if role.pending and type(role.pending[0]) is type(message) else message
            role.hear(own)
            if isinstance(own, Announce):
                question = question_of(terms, own)
            if isinstance(own, Replies):
                own = replace(own, question=question)
            if isinstance(own, Result):
                assert own.details["rejected"] == {"node-0": 1}
                own = replace(own, estimate=float(np.nextafter(own.estimate, 9.0)))
            yield sender, own

    result = audited(rewrite(honest, tmp_path / "t", conclude)).verdicts["result"]
    assert result.verdict == "unknown", result.reason
    assert "up to rounding" in result.reason


def test_a_run_that_everybody_refused_ends_honestly(tmp_path: Path) -> None:
    """The board gives up at the last refusal; the audit, which hears the record as a board does, does not object."""
    spoken = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=4)
    board, analyst = BoardRole(Terms(run=RUN, users=4, nodes=1), lambda: bytes(16)), AnalystRole(spoken, RUN)
    said: list[Said] = board.hear("node-0", Ready(node="node-0", first=0, users=4, pid=1, run=RUN), 0.0)
    for _, message in list(said):
        for word in analyst.hear(message):
            said += board.hear("analyst", word, 0.0)
    said += board.hear("node-0", Refusal(run=RUN, round=0, node="node-0", reason="another setup"), 0.0)
    assert isinstance(said[-1][1], Abort)
    assert audited(write(tmp_path / "t", said, "failed")).verdicts["integrity"].verdict == "pass"
