"""Authorship: an honest signed record passes, each forgery is named, and without keys nothing passes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reference.simulate_shuffled import shuffled_conversation
from benchmarks.signed import RUN, Said, honest_words, public_keys, signers_for, words_of, write_signed
from parley.emulator.audit.authorship import BATCH
from parley.emulator.audit.report import Report, audit
from parley.emulator.audit.verdict import Verdict
from parley.emulator.coins import key_from_seed, question_of, terms_of
from parley.emulator.protocol import Inputs
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Ready,
    Refusal,
    Replies,
    Result,
    Roster,
    Setup,
)
from parley.emulator.wire.signatures import Signer, derived
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall

USERS, NODES = 60, 3
KEY = key_from_seed(31)
SIGNERS = signers_for(KEY, NODES)
KEYS = public_keys(SIGNERS)
OTHERS = signers_for(key_from_seed(32), NODES)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    inputs: Inputs = np.random.default_rng(5).integers(0, protocol.inputs, USERS)
    path = tmp_path_factory.mktemp("signed") / "t.parley"
    return write_signed(path, honest_words(protocol, inputs, KEY, nodes=NODES, chunk=8), SIGNERS)


def audited(path: Path, keys: dict[str, bytes] | None = KEYS) -> Report:
    return audit(path, build, keys=keys, generator=np.random.default_rng(17))


def authorship(path: Path, keys: dict[str, bytes] | None = KEYS) -> Verdict:
    return audited(path, keys).verdicts["authorship"]


def copied(
    honest: Path,
    path: Path,
    change: Callable[[int, str, Message, bytes], tuple[str, bytes] | None],
    *,
    signer: Signer | None = SIGNERS["board"],
    **header: object,
) -> Path:
    """The record with some frames exchanged for others or left out, closed by whoever has this key."""
    nonce = b""
    with TranscriptWriter.create(path, RUN, **header) as writer:
        for record in TranscriptReader(honest):
            message = record.message
            nonce = message.nonce if isinstance(message, Roster) else nonce
            kept = change(record.sequence, record.sender, message, record.frame)
            if kept is not None:
                writer.append(kept[0], kept[1], record.time_ns)
        writer.close("completed", "", signer, nonce)
    return path


def nonce_of(path: Path) -> bytes:
    return next(message.nonce for _, message in words_of(path) if isinstance(message, Roster))


def exchange(kind: type[Message], make: Callable[[Message, bytes], bytes], number: int = 0) -> Callable[..., object]:
    """Exchange the frame of one message of a kind."""
    seen = -1

    def change(sequence: int, sender: str, message: Message, frame: bytes) -> tuple[str, bytes]:
        nonlocal seen
        seen += isinstance(message, kind)
        wanted = isinstance(message, kind) and seen == number
        return sender, make(message, frame) if wanted else frame

    return change


def test_an_honest_record_passes(honest: Path) -> None:
    report = audited(honest)
    verdict = report.verdicts["authorship"]
    assert verdict.verdict == "pass", verdict.reason
    assert report.ok
    assert verdict.evidence["signatures"] == len(words_of(honest)) + 1, "every record and the closing record"
    assert (verdict.evidence["authors"], verdict.evidence["heads"]) == (NODES + 2, 3)


def test_without_keys_nothing_passes(honest: Path) -> None:
    verdict = authorship(honest, None)
    assert verdict.verdict == "unknown"
    assert "--trust" in verdict.reason
    assert audited(honest, None).ok, "what nobody asked for is not needed"


def test_an_unsigned_record_fails_where_keys_are_given(honest: Path, tmp_path: Path) -> None:
    path = copied(honest, tmp_path / "t", lambda _, sender, message, frame: (sender, encode(message)))
    assert authorship(path).reason.startswith("record 0: a forged ready of node-0: node-0 signed nothing")


def test_a_forged_reply_is_named_with_its_node(honest: Path, tmp_path: Path) -> None:
    nonce = nonce_of(honest)

    def forge(message: Message, frame: bytes) -> bytes:
        assert isinstance(message, Replies)
        return encode(
            replace(message, columns={k: v[::-1] for k, v in message.columns.items()}), OTHERS["node-1"], nonce
        )

    change = exchange(Replies, forge, 4)
    reason = authorship(copied(honest, tmp_path / "t", change)).reason
    assert "a forged reply of node-1 in round 1: node-1 did not sign it" in reason


def test_a_swapped_broadcast_is_named(honest: Path, tmp_path: Path) -> None:
    def forge(message: Message, frame: bytes) -> bytes:
        assert isinstance(message, Announce)
        changed = {name: array * 0.5 for name, array in message.broadcast.items()}
        return encode(replace(message, broadcast=changed), OTHERS["analyst"], nonce_of(honest))

    verdict = authorship(copied(honest, tmp_path / "t", exchange(Announce, forge, 1)))
    assert "a forged broadcast of round 2: analyst did not sign it" in verdict.reason
    named = [each["what"] for each in verdict.evidence["faults"]]
    assert "node-2 answered a different question in round 2 than the one on record" in named


def test_another_broadcast_that_the_analyst_signed_is_named_by_who_heard_it(honest: Path, tmp_path: Path) -> None:
    """An analyst that shows one node another broadcast: the signatures are all good, the questions are not the same."""

    def show_another(said: list[Said]) -> Iterator[Said]:
        for sender, message in said:
            if isinstance(message, Replies) and message.node == "node-2" and message.round == 2:
                yield sender, replace(message, question=bytes(32))
            else:
                yield sender, message

    path = write_signed(tmp_path / "t", show_another(words_of(honest)), SIGNERS)
    report = audited(path)
    place = next(
        number
        for number, (_, message) in enumerate(words_of(path))
        if isinstance(message, Replies) and message.node == "node-2" and message.round == 2
    )
    expected = f"record {place}: node-2 answered a different question in round 2 than the one on record"
    assert report.verdicts["authorship"].reason.startswith(expected)


def test_a_foreign_key_is_named(honest: Path, tmp_path: Path) -> None:
    path = write_signed(tmp_path / "t", words_of(honest), {**SIGNERS, "node-1": OTHERS["node-1"]})
    assert authorship(path).reason.startswith("record 1: node-1 came with a foreign key")


def test_a_node_that_is_not_listed_is_named(honest: Path) -> None:
    keys = {name: key for name, key in KEYS.items() if name != "node-2"}
    assert authorship(honest, keys).reason.startswith("record 2: no key is listed for node-2")


def test_a_setup_for_another_roster(honest: Path, tmp_path: Path) -> None:
    def other_nonce(message: Message, frame: bytes) -> bytes:
        assert isinstance(message, Setup)
        return encode(replace(message, nonce=bytes(16)), SIGNERS["analyst"])

    reason = authorship(copied(honest, tmp_path / "t", exchange(Setup, other_nonce))).reason
    assert "setup is for another roster" in reason


def test_words_of_another_run_do_not_count(honest: Path, tmp_path: Path) -> None:
    """A reply under the right key, signed for another nonce."""
    change = exchange(Replies, lambda message, frame: encode(message, SIGNERS["node-0"], bytes(16)))
    assert "a forged reply of node-0" in authorship(copied(honest, tmp_path / "t", change)).reason


def test_a_record_rewritten_between_two_heads_says_where(honest: Path, tmp_path: Path) -> None:
    """Unsigned events are covered by the tree: one that is put in is found at the next head."""
    said = words_of(honest)
    closes = [number for number, (_, message) in enumerate(said) if isinstance(message, Close)]

    path = tmp_path / "t"
    with TranscriptWriter.create(path, RUN) as writer:
        for record in TranscriptReader(honest):
            if record.sequence == closes[1]:
                event = Event(event="restart", node="launcher", round=2, detail="it never happened")
                writer.append("launcher", encode(event), record.time_ns)
            writer.append(record.sender, record.frame, record.time_ns)
        writer.close("completed", "", SIGNERS["board"], nonce_of(honest))
    verdict = authorship(path)
    assert f"the record was rewritten between record {closes[0]} and record {closes[1] + 1}" in verdict.reason


def test_an_end_that_the_board_did_not_sign(honest: Path, tmp_path: Path) -> None:
    path = copied(honest, tmp_path / "t", lambda _, sender, message, frame: (sender, frame), signer=None)
    report = audited(path)
    assert report.verdicts["authorship"].verdict == "unknown"
    assert "did not sign the end" in report.verdicts["authorship"].reason
    assert not report.ok, "with keys authorship must be shown"
    forged = copied(honest, tmp_path / "u", lambda _, sender, message, frame: (sender, frame), signer=OTHERS["board"])
    assert "the board did not sign this end" in authorship(forged).reason


def test_the_last_word_of_a_launcher_is_not_an_accusation(honest: Path, tmp_path: Path) -> None:
    said = words_of(honest)
    cut = next(number for number, (_, message) in enumerate(said) if isinstance(message, Close))
    abort = Abort(run=RUN, outcome="failed", reason="the board was killed", nonce=nonce_of(honest))
    path = tmp_path / "t"
    with TranscriptWriter.create(path, RUN) as writer:
        for record in TranscriptReader(honest):
            if record.sequence < cut:
                writer.append(record.sender, record.frame, record.time_ns)
        writer.append("board", encode(abort), 2 * 10**18)
        writer.close("failed", abort.reason)
    assert authorship(path).verdict == "unknown"
    assert audited(path).verdicts["integrity"].verdict == "pass"


def test_refusals_may_be_bound_to_no_nonce_and_aborts_carry_it(honest: Path, tmp_path: Path) -> None:
    drawn = nonce_of(honest)

    def refuse(said: Iterable[Said]) -> Iterator[Said]:
        for sender, message in said:
            if isinstance(message, Replies) and message.node == "node-0":
                if message.chunk == 0 and message.round == 1:
                    yield sender, Refusal(run=RUN, round=1, node="node-0", reason="no")
            elif isinstance(message, Close):
                yield "board", Abort(run=RUN, outcome="failed", reason="below the quorum", nonce=drawn)
                return
            else:
                yield sender, message

    words = list(refuse(words_of(honest)))
    for nonce in (b"", drawn):
        path = tmp_path / f"t{len(nonce)}"
        write_signed(tmp_path / f"u{len(nonce)}", words, SIGNERS, outcome="failed")
        with TranscriptWriter.create(path, RUN) as writer:
            for record in TranscriptReader(tmp_path / f"u{len(nonce)}"):
                message, frame = record.message, record.frame
                if isinstance(message, Refusal):
                    frame = encode(message, SIGNERS[record.sender], nonce)
                writer.append(record.sender, frame, record.time_ns)
            writer.close("failed", "below the quorum", SIGNERS["board"], drawn)
        assert authorship(path).verdict == "pass", authorship(path).reason
    for nonce in (b"", bytes(16)):
        older = [(who, replace(each, nonce=nonce) if isinstance(each, Abort) else each) for who, each in words]
        path = tmp_path / f"v{len(nonce)}"
        write_signed(path, older, SIGNERS, outcome="failed")
        assert "an abort bound to another nonce" in authorship(path).reason


def test_what_the_header_says_beyond_its_run_is_not_signed(honest: Path, tmp_path: Path) -> None:
    path = copied(honest, tmp_path / "t", lambda _, sender, message, frame: (sender, frame), created=5)
    assert "the header also holds created" in authorship(path).reason
    assert authorship(path).verdict == "unknown"


def test_a_question_in_the_header_must_be_the_one_that_was_signed(honest: Path, tmp_path: Path) -> None:
    domain = next(message.domain for _, message in words_of(honest) if isinstance(message, Setup))

    def with_question(name: str, **question: object) -> Verdict:
        path = copied(honest, tmp_path / name, lambda _, sender, message, frame: (sender, frame), question=question)
        return authorship(path)

    good = with_question("good", title="Tau", levels=(3, 3))
    assert (good.verdict, good.evidence["unsigned_title"]) == ("pass", "Tau")
    for levels in ((4, 3), (9,), (1, 9)):
        other = with_question(f"levels-{levels[0]}", title="Tau", levels=levels)
        assert (other.verdict, other.reason[:32]) == ("fail", "the header: it names other level")
    column = {"name": "age", "levels": domain["inputs"], "type": "number", "low": 0.0, "high": 1.0}
    assert with_question("columns", title="Tau", levels=(domain["inputs"],), columns=(column,)).verdict == "fail"
    assert with_question("strange", title=5, levels="many").verdict == "unknown"


def test_many_signatures_on_many_threads(tmp_path: Path) -> None:
    users = 3 * BATCH
    protocol = design("one-round", Kendall(levels=(3, 3)), epsilon=1.0, users=users)
    signers = signers_for(KEY, users)
    inputs = np.zeros(users, np.int64)
    said = list(honest_words(protocol, inputs, KEY, nodes=users, chunk=8))
    path = write_signed(tmp_path / "t", said, signers)
    keys = public_keys(signers)
    assert authorship(path, keys).verdict == "pass"
    keys[f"node-{users - 1}"] = derived(KEY, "somebody else").public
    assert f"node-{users - 1} came with a foreign key" in authorship(path, keys).reason
    lied = {**signers, "node-150": OTHERS["node-0"]}
    words = [(sender, replace(message, key=b"") if isinstance(message, Ready) else message) for sender, message in said]
    forged = write_signed(tmp_path / "u", words, lied)
    faults = authorship(forged, public_keys(lied) | {"node-150": signers["node-150"].public}).evidence["faults"]
    assert [each["what"] for each in faults] == [
        "node-150 came with a foreign key, not with the one listed for it",
        "a forged reply of node-150 in round 1: node-150 did not sign it",
    ]


def test_a_result_is_the_analyst_s(honest: Path, tmp_path: Path) -> None:
    change = exchange(Result, lambda message, frame: encode(message, SIGNERS["board"], nonce_of(honest)))
    assert "a forged result: analyst did not sign it" in authorship(copied(honest, tmp_path / "t", change)).reason


def test_behind_a_shuffler_the_batch_is_signed_and_the_verdict_says_so(tmp_path: Path) -> None:
    protocol = design("shuffled", GiniDiversity(levels=3), epsilon=1.0, users=1000)
    signers = signers_for(KEY, 0, ("shuffler",))
    inputs = np.random.default_rng(5).integers(0, protocol.inputs, 1000)
    said = list(shuffled_conversation(protocol, inputs, KEY, run=RUN, nodes=2))
    setup = next(message for _, message in said if isinstance(message, Setup))
    asked = {message.round: message for _, message in said if isinstance(message, Announce)}
    words = [
        (sender, replace(each, question=question_of(terms_of(setup), asked[each.round])))
        if isinstance(each, Replies)
        else (sender, each)
        for sender, each in said
    ]
    verdict = authorship(write_signed(tmp_path / "t", words, signers), public_keys(signers))
    assert verdict.verdict == "pass", verdict.reason
    assert "nobody can prove who sent which reply, by design" in verdict.evidence["meaning"]
    silent = write_signed(
        tmp_path / "u", [(s, replace(m, question=b"") if isinstance(m, Replies) else m) for s, m in said], signers
    )
    assert "shuffler answered a different question" in authorship(silent, public_keys(signers)).reason
