"""Runs through a shuffler between real processes: the record is anonymous, audits hold, kills are survived."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed, nonce_from_key, question_of, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode, is_signed, said_by
from parley.emulator.wire.messages import Announce, Close, Event, Message, Ready, Replies, Setup
from parley.emulator.wire.sealing import KEY_BYTES, new_secret
from parley.emulator.wire.security import read_trust
from parley.launch.problem import ProblemFlags, make_problem
from parley.protocols.registry import design
from parley.protocols.shuffle.sealed import sealed
from parley.protocols.workloads.kendall import Kendall
from tests.launch.conftest import Parley

FLAGS = ProblemFlags(statistic="kendall", levels="3x3", users=600, epsilon=1.0, delta=1e-6, seed=5, protocol="shuffled")
ARGUMENTS = ("--statistic", "kendall", "--levels", "3x3", "--users", 600, "--epsilon", 1, "--delta", 1e-6, "--quiet")
# Replies take their time, so that the kill comes first on any machine.
KILL = """
name = "kill"
seed = 1

[[fault]]
kind = "delay"
nodes = "node-*"
direction = "up"
messages = ["replies"]
distribution = "uniform"
seconds = 1.5
spread = 0.1

[[fault]]
kind = "kill"
nodes = "shuffler"
rounds = [1]
seconds = 0.2
"""


def recorded(folder: Path) -> list[Message]:
    return [record.message for record in TranscriptReader(folder / "transcript.parley")]


def batch_of(folder: Path) -> list[tuple[bytes, ...]]:
    """What the shuffler posted, but for the name of the run."""
    return [
        (message.users.tobytes(), *(message.columns[name].tobytes() for name in sorted(message.columns)))
        for message in recorded(folder)
        if isinstance(message, Replies)
    ]


def logged(folder: Path) -> str:
    return (folder / "logs" / "shuffler.log").read_text()


def rows(messages: list[Message]) -> list[bytes]:
    """Every reply's bytes, in an order of their own."""
    return sorted(
        b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
        for message in messages
        if isinstance(message, Replies)
        for row in range(len(message.users))
    )


def test_a_run_is_anonymous_and_its_audit_good(parley: Parley, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = parley("run", *ARGUMENTS, "--protocol", "shuffled", "--seed", 5, "--processes", 3, "--out", out, "--json")
    assert said.code == 0
    result = said.record
    assert (result["delta"], result["replied"], result["users"]) == (1e-6, 600, 600)
    messages = recorded(out)
    assert {message.node for message in messages if isinstance(message, Ready | Replies)} == {"shuffler"}
    problem = make_problem(FLAGS)
    protocol = problem.protocol("shuffled", FLAGS.epsilon, delta=FLAGS.delta, seed=FLAGS.seed)
    past = list(conversation(protocol, problem.inputs, key_from_seed(5)))
    assert rows(messages) == rows([message for _, message in past])
    audit = parley("audit", out, "--json")
    assert audit.code == 0
    privacy = audit.record["privacy"]
    assert privacy["verdict"] == audit.record["fidelity"]["verdict"] == "pass"
    assert privacy["delta_shown"] <= privacy["delta"] == 1e-6
    assert 1.0 < privacy["local_loss"] <= privacy["local_epsilon"]
    replay = parley("replay", out, "--role", "all", "--json")
    assert replay.record["identical"] is True
    assert "node-" not in logged(out)


def test_what_the_shuffler_says_on_record_is_signed_for_the_question(parley: Parley, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert parley("run", *ARGUMENTS, "--protocol", "shuffled", "--processes", 3, "--out", out).code == 0
    key = read_trust(out / "trust.toml")["shuffler"]
    records = list(TranscriptReader(out / "transcript.parley"))
    setup = next(each.message for each in records if isinstance(each.message, Setup))
    announce = next(each.message for each in records if isinstance(each.message, Announce))
    said = [each for each in records if isinstance(each.message, Ready | Replies)]
    assert [each.message.kind for each in said] == ["ready", "replies"]
    assert all(said_by(key, each.frame, each.message, setup.nonce) for each in said)
    replies = said[-1].message
    assert isinstance(replies, Replies)
    assert replies.question == question_of(terms_of(setup), announce)
    assert all(is_signed(each.frame) for each in records if each.message.kind != "event")


def test_the_counts_of_a_round_are_of_users(parley: Parley, tmp_path: Path) -> None:
    """To the board the shuffler is one node: replies tell who is missing, and places are numbered without gaps."""
    out, conditions = tmp_path / "run", tmp_path / "kill.toml"
    conditions.write_text(KILL.replace('"shuffler"', '"node-0"').replace("seconds = 0.2", "restart = false"))
    said = parley(
        *("run", *ARGUMENTS, "--protocol", "shuffled", "--processes", 3, "--deadline", 5, "--quorum", 0.5),
        *("--conditions", conditions, "--out", out),
    )
    assert said.code == 0, said.err
    messages = recorded(out)
    (announce,) = [each for each in messages if isinstance(each, Announce)]
    (close,) = [each for each in messages if isinstance(each, Close)]
    assert (announce.speakers, close.replies, close.missing, close.absent) == (600, 400, 200, ())
    users = np.concatenate([each.users for each in messages if isinstance(each, Replies)])
    assert users.tolist() == list(range(400))
    assert "node-" not in logged(out)


def test_a_seed_fixes_the_order_of_the_batch(parley: Parley, tmp_path: Path) -> None:
    """Without one the operating system draws: the same messages in another order."""
    common = ("run", *ARGUMENTS, "--protocol", "shuffled", "--processes")
    for name, processes in (("one", 3), ("two", 2)):
        assert parley(*common, processes, "--seed", 5, "--out", tmp_path / name).code == 0
    assert batch_of(tmp_path / "one") == batch_of(tmp_path / "two")
    assert parley(*common, 2, "--seed", 6, "--out", tmp_path / "other").code == 0
    assert batch_of(tmp_path / "other") != batch_of(tmp_path / "two")


def test_a_killed_shuffler_asks_again_and_keys_keep_strangers_out(parley: Parley, tmp_path: Path) -> None:
    out, conditions = tmp_path / "run", tmp_path / "kill.toml"
    conditions.write_text(KILL)
    said = parley(
        *("run", *ARGUMENTS, "--protocol", "split-and-mix", "--seed", 5, "--processes", 2, "--secure", "--json"),
        *("--conditions", conditions, "--out", out),
    )
    assert said.code == 0
    messages = recorded(out)
    assert any(isinstance(message, Event) and message.event == "restart" for message in messages)
    assert sum(len(message.users) for message in messages if isinstance(message, Replies)) == 600
    assert "node-" not in logged(out)
    audit = parley("audit", out, "--json").record
    assert audit["ok"] is True
    assert audit["fidelity"]["verdict"] == "pass"
    changed = tmp_path / "changed.parley"
    change_a_share(out / "transcript.parley", changed)
    told = parley("replay", changed, "--witness", out / "witness.parley", "--role", "users", "--json")
    assert told.code == 1
    assert told.record["first_difference"]["recorded"]["not the witness's"] == 1


def change_a_share(source: Path, target: Path) -> None:
    """The same record, well chained, with one share of one reply moved by one."""
    reader = TranscriptReader(source)
    writer = TranscriptWriter.create(target, reader.run)
    for record in reader:
        frame, message = record.frame, record.message
        if isinstance(message, Replies):
            shares = np.array(message.columns["shares"])
            shares[3, 2, 1] ^= 1
            frame = encode(Replies(**{**vars(message), "columns": {"shares": shares}}))
        writer.append(record.sender, frame, record.time_ns)
    writer.close("completed", "")


def test_below_the_quorum_nothing_is_posted(parley: Parley, tmp_path: Path) -> None:
    """A node that dies for good leaves too few for the crowd: the run fails, and no reply is on record."""
    out, conditions = tmp_path / "run", tmp_path / "kill.toml"
    conditions.write_text(KILL.replace('"shuffler"', '"node-0"').replace("seconds = 0.2", "restart = false"))
    said = parley(
        *("run", *ARGUMENTS, "--protocol", "shuffled", "--processes", 2, "--deadline", 3, "--quorum", 0.9),
        *("--conditions", conditions, "--out", out),
    )
    assert said.code == 3
    assert not [message for message in recorded(out) if isinstance(message, Replies)]


def test_keys_from_a_folder_serve_a_shuffler(parley: Parley, tmp_path: Path) -> None:
    """Made with --shuffler they do; made without, the run is refused before anything starts."""
    common = ("run", *ARGUMENTS, "--protocol", "shuffled", "--seal", "--processes", 2, "--json")
    for name, extra in (("bare", ()), ("whole", ("--shuffler",))):
        assert parley("keys", tmp_path / name, "--nodes", 2, *extra).code == 0
    assert parley(*common, "--keys", tmp_path / "bare", "--out", tmp_path / "no").code == 2
    said = parley(*common, "--keys", tmp_path / "whole", "--out", tmp_path / "run")
    assert said.code == 0
    assert said.record["bytes_up"] > 51
    assert parley("audit", tmp_path / "run", "--json").record["privacy"]["verdict"] == "pass"


def test_plans_list_them_to_those_who_trust_a_shuffler(parley: Parley) -> None:
    names = [each["name"] for each in parley("plan", *ARGUMENTS[:-1], "--json").record["protocols"]]
    trusting = parley("plan", *ARGUMENTS[:-1], "--trust", "shuffler", "--json").record["protocols"]
    assert not {"shuffled", "split-and-mix"} & set(names)
    assert [each["name"] for each in trusting][:2] == ["split-and-mix", "shuffled"]
    listed = {each["name"]: each["trusts"] for each in parley("protocols", "--json").record}
    assert listed["shuffled"] == "shuffler"
    assert listed["one-round"] == "nobody"


def asked(protocol: Protocol, nonce: bytes) -> tuple[Setup, Announce]:
    """What the analyst says first."""
    past = conversation(protocol, np.zeros(600, np.int64), bytes(32))
    said = [message for _, message in past if isinstance(message, Setup | Announce)]
    setup, announce = said[:2]
    assert isinstance(setup, Setup)
    assert isinstance(announce, Announce)
    return Setup(**{**vars(setup), "nonce": nonce}), announce


def cohort(protocol: Protocol, **agreed: Any) -> CohortRole:
    common: dict[str, Any] = {"node": "a", "first": 0, "inputs": np.zeros(5, np.int64), "key": bytes(32), "chunk": 4}
    consent = Consent(run="simulated", domain=domain_of(protocol.inputs), **agreed)
    return CohortRole(build=lambda name, parameters: protocol, consent=consent, **common)


def test_a_user_gives_away_no_more_than_it_agreed_to() -> None:
    """Epsilon 1 behind a shuffler is epsilon 4 without one: whoever trusts nobody must have agreed to that."""
    protocol = design("shuffled", Kendall(levels=(3, 3)), epsilon=1.0, users=600, delta=1e-6)
    setup, _ = asked(protocol, bytes(16))
    refused: dict[str, dict[str, Any]] = {
        "epsilon .* for users who trust nobody is above": {"cap": 1.0, "delta": 1e-6},
        "delta 1e-06 is above": {"cap": 1.0, "trusts": "shuffler"},
        "epsilon 1.0 is above": {"cap": 0.5, "delta": 1e-6, "trusts": "shuffler"},
    }
    for cause, agreed in refused.items():
        with pytest.raises(RemoteProtocolError, match=cause):
            list(cohort(protocol, **agreed).hear(setup))
    local = protocol.claim.local_epsilon
    for trusts, cap in (("shuffler", 1.0), ("nobody", local)):
        willing = cohort(protocol, cap=cap, delta=1e-6, trusts=trusts)
        list(willing.hear(setup))
        assert willing.protocol is protocol


def test_no_box_of_two_questions_has_the_same_ephemeral_key() -> None:
    """A node that has lost its memory is asked again under another setup: its coins, and its boxes, are all new."""
    secret = new_secret()
    heads: list[set[bytes]] = []
    for epsilon, nonce in ((1.0, bytes(16)), (1.0, nonce_from_key(bytes(32))), (0.9, bytes(16)), (1.0, bytes(16))):
        plain = design("shuffled", Kendall(levels=(3, 3)), epsilon=epsilon, users=600, delta=1e-6)
        protocol = sealed(plain, secret)
        node = cohort(protocol, cap=1.0, delta=1e-6, trusts="shuffler")
        replies = [
            said for message in asked(protocol, nonce) for said in node.hear(message) if isinstance(said, Replies)
        ]
        boxes = np.concatenate([each.columns["sealed"] for each in replies])
        heads.append({box.tobytes()[:KEY_BYTES] for box in boxes})
    assert all(len(each) == 5 for each in heads)
    assert heads[0] == heads[3], "the same question is answered with the same bytes"
    assert not heads[0] & heads[1]
    assert not heads[0] & heads[2]
    assert not heads[1] & heads[2]
