"""User nodes against a lying analyst: a real process attacks a real process, and the exact audit is the judge."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.audit.privacy import check_privacy
from parley.emulator.record.conversation import listen
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.wire.messages import Refusal, Replies
from parley.nodes.common import UNFINISHED
from parley.nodes.state.user_state import Identity, State
from parley.protocols.registry import build
from tests.nodes.hostile import ANALYST, ATTACKS, BOARD, EPSILON, KEY, RUN, SIGNED, USERS

ROOT = Path(__file__).parents[2]
# What was answered before the lie, and what the node says when it hears it ("" where it stays silent).
EXPECTED = {
    "oversized_mu": ({1}, "not in R^Delta"),
    "mu_outside_the_declared_set": ({1}, "not in R^Delta"),
    "mu_of_another_shape": ({1}, "should be float64"),
    "another_matrix_than_in_setup": ({1}, "second, different setup"),
    "a_changed_broadcast_for_the_same_round": ({1, 2}, "second, different broadcast"),
    "an_extra_round": ({1, 2, 3}, "round 4 of 3"),
    "rounds_out_of_order": ({1}, "round 2 comes after round 0; none may be left out"),
    "a_round_left_out": ({1}, "round 3 comes after round 1; none may be left out"),
    "another_run_than_agreed": (set(), "the run elsewhere is not one that these users agreed to"),
    "fewer_values_than_agreed": (set(), "the domain of 2 inputs is not the agreed of 3 inputs"),
    "fewer_values_under_the_agreed_domain": (set(), "has 2 inputs, but these users agreed to 3"),
    "no_nonce": (set(), "no nonce"),
    "the_same_run_again_with_another_nonce": ({1}, "second, different setup"),
    "a_result_before_the_setup": ({1}, ""),
    "a_replayed_old_run": ({1}, "a broadcast of run older"),
    "epsilon_above_the_cap": (set(), "above this user's cap"),
    "a_claim_that_lies": (set(), "claims"),
    "not_finite": ({1}, "a broadcast that is not a message"),
    **{attack: (set(), "") for attack in SIGNED},
}


# Records that hold what is no message, or two setups: there is no one protocol to audit.
UNREADABLE = ("not_finite", "another_matrix_than_in_setup")


def test_every_attack_is_expected() -> None:
    assert set(EXPECTED) == {*ATTACKS, *SIGNED, "not_finite"}


@pytest.mark.parametrize("attack", EXPECTED)
def test_the_users_stay_private(attack: str, tmp_path: Path) -> None:
    inputs = np.arange(USERS, dtype=np.int64) % 3
    keys = {"analyst": ANALYST.public, "board": BOARD.public} if attack in SIGNED else {}
    consent = Consent(run=RUN, domain=domain_of(3), cap=EPSILON, **keys)
    victim = Identity(node="victim", first=0, users=USERS, consent=consent, coin_key=KEY, signing_key=bytes(32))
    State.create(tmp_path / "state", victim)
    Witness(run=RUN, key=KEY, inputs=inputs).save(tmp_path / "witness")
    analyst = subprocess.Popen([sys.executable, "-m", "tests.nodes.hostile", attack, str(tmp_path)], cwd=ROOT)
    user = None
    try:
        while not (tmp_path / "addresses.json").exists():
            assert analyst.poll() is None
            time.sleep(0.05)
        command = [sys.executable, "-m", "parley.nodes.user", "--addresses", str(tmp_path / "addresses.json")]
        command += ["--state", str(tmp_path / "state"), "--witness", str(tmp_path / "witness")]
        with (tmp_path / "user.log").open("wb") as log:
            user = subprocess.Popen(command, cwd=ROOT, stderr=log)
        assert analyst.wait(120) == 0
        assert user.wait(60) == UNFINISHED, (tmp_path / "user.log").read_text()
    finally:
        for process in (analyst, user):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
    answered, reason = EXPECTED[attack]
    record = [each for each in TranscriptReader(tmp_path / "transcript.parley") if each.sender == "victim"]
    messages = [each.message for each in record]
    assert {each.round for each in messages if isinstance(each, Replies)} == answered
    refusals = [each.reason for each in messages if isinstance(each, Refusal)]
    assert bool(refusals) == bool(reason)
    assert reason in "".join(refusals[:1])
    # Whatever was answered, each user once a round, cost at most epsilon in all.
    assert sum(len(each.users) for each in messages if isinstance(each, Replies)) == USERS * len(answered)
    if answered and attack not in UNREADABLE:
        verdict = check_privacy(listen(tmp_path / "transcript.parley", build))
        assert verdict.evidence["max_loss"] <= EPSILON + 1e-9, verdict
