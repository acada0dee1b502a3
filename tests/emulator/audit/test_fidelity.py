"""Fidelity and side channels: what follows the declared law passes, what does not is found at alpha = 1e-6."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.audit.side_channels import Presence
from parley.emulator.audit.statistics import ALPHA, Family, mean_p_value
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Randomizer
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Close, Replies
from tests.emulator.audit.broken import EPSILON, HONEST, LEVELS, Mean, builder, half_noise, no_noise
from tests.emulator.audit.recordings import (
    KEY,
    RUN,
    Change,
    Said,
    audited,
    inputs_for,
    record,
    replace_first,
    rewrite,
    said_in,
    write,
)

USERS = 2500


def run(path: Path, randomizer: Randomizer, users: int = USERS) -> tuple[Path, Protocol, Inputs]:
    protocol = Mean(randomizer=randomizer)
    inputs = inputs_for(protocol, users)
    return record(path, protocol, inputs), protocol, inputs


@pytest.mark.parametrize("name", HONEST)
def test_honest_noise_passes(tmp_path: Path, name: str) -> None:
    path, protocol, inputs = run(tmp_path / "t", HONEST[name](EPSILON))
    report = audited(path, inputs, builder(protocol))
    assert report.ok, report.record()
    assert report.verdicts["fidelity"].evidence["tests"] == 9


@pytest.mark.parametrize("name", HONEST)
def test_a_node_that_forgot_its_noise_fails(tmp_path: Path, name: str) -> None:
    path, protocol, inputs = run(tmp_path / "t", no_noise(name))
    report = audited(path, inputs, builder(protocol))
    assert report.verdicts["privacy"].verdict == "pass", "its numbers look plausible"
    assert report.verdicts["fidelity"].verdict == "fail"
    assert "do not follow the declared law" in report.verdicts["fidelity"].reason


@pytest.mark.parametrize("name", HONEST)
def test_half_the_noise_fails(tmp_path: Path, name: str) -> None:
    path, protocol, inputs = run(tmp_path / "t", half_noise(name))
    report = audited(path, inputs, builder(protocol))
    assert report.verdicts["privacy"].verdict == "pass"
    assert report.verdicts["fidelity"].verdict == "fail"


def test_one_node_of_ten_without_noise_is_named(tmp_path: Path) -> None:
    honest, silent = Mean(randomizer=HONEST["laplace"](EPSILON)), Mean(randomizer=no_noise("laplace"))
    inputs = inputs_for(honest, USERS)
    said = list(conversation(honest, inputs, KEY, run=RUN, nodes=10))
    wrong = [each for each in conversation(silent, inputs, KEY, run=RUN, nodes=10) if isinstance(each[1], Replies)]
    mixed = [wrong[7] if isinstance(m, Replies) and m.node == "node-7" else (s, m) for s, m in said]
    fidelity = audited(write(tmp_path / "t", mixed), inputs, builder(honest)).verdicts["fidelity"]
    assert fidelity.verdict == "fail"
    assert "of node-7" in fidelity.reason


def test_noise_of_other_inputs_fails(tmp_path: Path) -> None:
    path, protocol, inputs = run(tmp_path / "t", HONEST["laplace"](EPSILON))
    shifted = (inputs + LEVELS // 2) % LEVELS
    assert audited(path, shifted, builder(protocol)).verdicts["fidelity"].verdict == "fail"


def test_a_few_replies_say_nothing(tmp_path: Path) -> None:
    path, protocol, inputs = run(tmp_path / "t", HONEST["one-bit"](EPSILON), users=30)
    assert audited(path, inputs, builder(protocol)).verdicts["fidelity"].verdict == "unknown"


@pytest.mark.parametrize(
    ("inputs", "reason"), [(np.zeros(10, np.int64), "knows 10 users"), (np.full(USERS, 50), "outside 0..4")]
)
def test_a_witness_of_something_else(tmp_path: Path, inputs: Inputs, reason: str) -> None:
    path, protocol, _ = run(tmp_path / "t", HONEST["one-bit"](EPSILON))
    report = audited(path, inputs, builder(protocol))
    assert reason in report.verdicts["fidelity"].reason
    assert reason in report.verdicts["side_channels"].reason


def test_the_mean_s_p_value_covers() -> None:
    """Of 2,000 means of few rare values none is accused, and a mean that is off by five deviations is."""
    generator = np.random.default_rng(3)
    p_values = [mean_p_value((generator.random(60) < 0.02).astype(float), 0.02, 1.0)[1] for _ in range(2000)]
    assert min(p_values) > ALPHA
    assert mean_p_value((generator.random(2000) < 0.5).astype(float), 0.6, 1.0)[1] < ALPHA


def leave_out(inputs: Inputs, chance: float, level: int) -> Change:
    """Replies of users with inputs from `level` on go missing with this chance, the others' with a fifth of it."""
    generator = np.random.default_rng(8)

    def change(said: list[Said]) -> Iterator[Said]:
        kept_users = 0
        for sender, message in said:
            if isinstance(message, Replies):
                limit = np.where(inputs[message.users] >= level, chance, chance / 5)
                kept = generator.random(len(limit)) >= limit
                kept_users += int(kept.sum())
                columns = {name: column[kept] for name, column in message.columns.items()}
                message = replace(message, users=message.users[kept], columns=columns)
            if isinstance(message, Close):
                message = replace(message, replies=kept_users, missing=len(inputs) - kept_users)
            yield sender, message

    return change


@pytest.mark.parametrize(("level", "verdict"), [(0, "pass"), (3, "fail")])
def test_presence_that_depends_on_the_input(tmp_path: Path, level: int, verdict: str) -> None:
    path, protocol, inputs = run(tmp_path / "t", HONEST["one-bit"](EPSILON))
    change = leave_out(inputs, 0.2, level)
    report = audited(rewrite(path, tmp_path / "u", change), inputs, builder(protocol))
    assert report.verdicts["integrity"].verdict == "pass", report.verdicts["integrity"].reason
    assert report.verdicts["side_channels"].verdict == verdict


def test_where_all_inputs_are_in_one_group_their_absence_tells_nothing() -> None:
    """What rounding leaves of a covariance of 0 is no evidence, and has no p-value of 0."""
    generator = np.random.default_rng(4)
    for users in range(20, 60):
        presence, family = Presence(), Family()
        for _ in range(4):
            absent = generator.permutation(users) < 6
            presence.add(generator.integers(0, 4, users), absent)
        presence.test(family, "round 1")
        assert not family.tests


def one_user_a_node(path: Path, users: int = 120) -> tuple[list[Said], Protocol, Inputs]:
    protocol = Mean(randomizer=HONEST["one-bit"](EPSILON))
    inputs = inputs_for(protocol, users)
    return said_in(record(path, protocol, inputs, nodes=users)), protocol, inputs


@pytest.mark.parametrize(("by_input", "verdict"), [(False, "pass"), (True, "fail")])
def test_order_that_depends_on_the_input(tmp_path: Path, by_input: bool, verdict: str) -> None:
    said, protocol, inputs = one_user_a_node(tmp_path / "t")
    replies = [each for each in said if isinstance(each[1], Replies)]
    luck = np.random.default_rng(2).random(len(inputs))
    late = inputs + 4 * luck if by_input else luck
    order = iter(sorted(replies, key=lambda each: float(late[each[1].users[0]])))  # type: ignore[attr-defined]
    mixed = [next(order) if isinstance(message, Replies) else (sender, message) for sender, message in said]
    report = audited(write(tmp_path / "u", mixed), inputs, builder(protocol))
    assert report.verdicts["integrity"].verdict == "pass", report.verdicts["integrity"].reason
    assert report.verdicts["side_channels"].verdict == verdict
    assert report.verdicts["side_channels"].evidence["tests"] == 1


def test_sorted_inputs_in_the_order_of_numbers_are_no_side_channel(tmp_path: Path) -> None:
    protocol = Mean(randomizer=HONEST["one-bit"](EPSILON))
    inputs = np.sort(inputs_for(protocol, 120))
    report = audited(record(tmp_path / "t", protocol, inputs, nodes=120), inputs, builder(protocol))
    assert report.verdicts["side_channels"].verdict == "unknown"
    assert "not tested" in report.verdicts["side_channels"].reason


def test_sizes_that_differ(tmp_path: Path) -> None:
    path, protocol, inputs = run(tmp_path / "t", HONEST["one-bit"](EPSILON))
    wider = replace_first(
        Replies, lambda each: replace(each, columns={"level.bit": each.columns["level.bit"].astype(np.uint16)})
    )
    side = audited(rewrite(path, tmp_path / "u", wider), inputs, builder(protocol)).verdicts["side_channels"]
    assert "2 different sizes" in side.reason
