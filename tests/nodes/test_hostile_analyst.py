"""User nodes against a lying analyst: a real process attacks a real process, and the exact audit is the judge."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from emulator.audit.conversation import listen
from emulator.audit.privacy import check_privacy
from emulator.coins import key_from_seed
from emulator.messages import Refusal, Replies
from emulator.transcript import TranscriptReader
from emulator.witness import Witness
from protocols.registry import build
from tests.nodes.hostile import ATTACKS, EPSILON, RUN, USERS

ROOT = Path(__file__).parents[2]
# What was answered before the lie, and what the node says when it hears it ("" where it stays silent).
EXPECTED = {
    "oversized_mu": ({1}, "beyond"),
    "mu_outside_the_declared_set": ({1}, "beyond"),
    "mu_of_another_shape": ({1}, "should be float64"),
    "another_matrix_than_in_setup": ({1}, "second, different setup"),
    "a_changed_broadcast_for_the_same_round": ({1, 2}, "second, different broadcast"),
    "an_extra_round": ({1, 2, 3}, "round 4 of 3"),
    "rounds_out_of_order": ({2}, "out of order"),
    "a_replayed_old_run": ({1}, "a broadcast of run older"),
    "epsilon_above_the_cap": (set(), "above this user's cap"),
    "a_claim_that_lies": (set(), "claims"),
    "not_finite": ({1}, ""),
}


def test_every_attack_is_expected() -> None:
    assert set(EXPECTED) == {*ATTACKS, "not_finite"}


@pytest.mark.parametrize("attack", EXPECTED)
def test_the_users_stay_private(attack: str, tmp_path: Path) -> None:
    inputs = np.arange(USERS, dtype=np.int64) % 3
    Witness(run=RUN, key=key_from_seed(1), inputs=inputs).save(tmp_path / "witness")
    analyst = subprocess.Popen([sys.executable, "-m", "tests.nodes.hostile", attack, str(tmp_path)], cwd=ROOT)
    user = None
    try:
        while not (tmp_path / "addresses.json").exists():
            assert analyst.poll() is None
            time.sleep(0.05)
        command = [sys.executable, "-m", "nodes.user", "--addresses", str(tmp_path / "addresses.json")]
        command += ["--node", "victim", "--users", str(USERS), "--witness", str(tmp_path / "witness")]
        command += ["--journal", str(tmp_path / "journal"), "--cap", str(EPSILON)]
        with (tmp_path / "user.log").open("wb") as log:
            user = subprocess.Popen(command, cwd=ROOT, stderr=log)
        assert analyst.wait(120) == 0
        assert user.wait(60) == 0, (tmp_path / "user.log").read_text()
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
    assert (not reason and not refusals) or reason in refusals[0]
    # Whatever was answered, each user once a round, cost at most epsilon in all.
    assert sum(len(each.users) for each in messages if isinstance(each, Replies)) == USERS * len(answered)
    if answered and attack not in ("not_finite", "another_matrix_than_in_setup"):
        verdict = check_privacy(listen(tmp_path / "transcript.parley", build))
        assert verdict.evidence["max_loss"] <= EPSILON + 1e-9, verdict
