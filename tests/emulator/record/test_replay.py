"""Replays come out byte for byte, and the first thing that does not is shown with both values."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.diff import compare_runs
from parley.emulator.record.replay import replay_analyst, replay_users
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Message, Replies, Result, Setup
from parley.nodes.replay import replay_live
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from tests.emulator.audit.recordings import (
    KEY,
    Change,
    Said,
    heard,
    inputs_for,
    record,
    replace_first,
    rewrite,
    witness_of,
    write,
)

USERS = 50


@pytest.fixture(scope="module", autouse=True)
def recorded_as_nodes_do() -> Iterator[None]:
    """Nodes compute on one thread, and so do these recordings."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return design("three-round", GiniDiversity(levels=3), epsilon=1.0, users=USERS)


@pytest.fixture(scope="module")
def inputs(protocol: Protocol) -> Inputs:
    return inputs_for(protocol, USERS)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, protocol: Protocol, inputs: Inputs) -> Path:
    return record(tmp_path_factory.mktemp("replay") / "t.parley", protocol, inputs, nodes=3, chunk=7)


def nudge(replies: Replies) -> Message:
    step = np.array(replies.columns["a.step"])
    step[2] += 1
    return replace(replies, columns={**replies.columns, "a.step": step})


def other_index(replies: Replies) -> Message:
    index = np.array(replies.columns["y_L.index"])
    index[1] = (index[1] + 1) % 8
    return replace(replies, columns={**replies.columns, "y_L.index": index})


def first_of_round(number: int, change: object) -> Change:
    def apply(said: list[Said]) -> Iterator[Said]:
        done = False
        for sender, message in said:
            if isinstance(message, Replies) and message.round == number and message.users[0] == 0 and not done:
                done = True
                message = change(message)  # type: ignore[operator]
            yield sender, message

    return apply


def test_the_analyst_says_the_same(honest: Path) -> None:
    replay = replay_analyst(heard(honest))
    assert replay.record() == {"role": "analyst", "identical": True, "first_difference": None, "compared": 5}


def test_users_say_the_same(honest: Path, inputs: Inputs) -> None:
    replay = replay_users(heard(honest), witness_of(inputs))
    assert replay.record() == {"role": "users", "identical": True, "first_difference": None, "compared": 3 * USERS}


def test_another_estimate_is_shown_with_both_values(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Result, lambda each: replace(each, estimate=each.estimate + 1.0))
    difference = replay_analyst(heard(rewrite(honest, tmp_path / "t", change))).difference
    assert difference is not None
    assert difference.recorded["estimate"] == pytest.approx(difference.replayed["estimate"] + 1.0)


def test_another_broadcast_is_shown_at_its_place(honest: Path, tmp_path: Path) -> None:
    def change(announce: Announce) -> Announce:
        mu = np.array(announce.broadcast["mu"])
        mu[1] += 2.0**-40
        return replace(announce, broadcast={"mu": mu})

    difference = replay_analyst(heard(rewrite(honest, tmp_path / "t", replace_first(Announce, change, 1)))).difference
    assert difference is not None
    assert difference.round == 2
    assert list(difference.recorded) == ["broadcast.mu[1]"]


def test_a_result_left_out_is_a_difference(honest: Path, tmp_path: Path) -> None:
    path = rewrite(honest, tmp_path / "t", lambda said: said[:-2])
    assert replay_analyst(heard(path)).identical, "a run that stopped there said nothing else"


def test_another_reply_is_named(honest: Path, tmp_path: Path, inputs: Inputs) -> None:
    replay = replay_users(heard(rewrite(honest, tmp_path / "t", first_of_round(2, nudge))), witness_of(inputs))
    assert not replay.identical
    assert replay.difference is not None
    assert (replay.difference.round, replay.difference.user) == (2, 2)
    assert replay.difference.recorded["a.step"] == replay.difference.replayed["a.step"] + 1


def test_a_reply_left_out_is_named(honest: Path, tmp_path: Path, inputs: Inputs) -> None:
    def shorter(replies: Replies) -> Message:
        columns = {name: np.delete(column, 3) for name, column in replies.columns.items()}
        return replace(replies, users=np.delete(replies.users, 3), columns=columns)

    replay = replay_users(heard(rewrite(honest, tmp_path / "t", first_of_round(1, shorter))), witness_of(inputs))
    assert replay.difference is not None
    assert (replay.difference.user, replay.difference.recorded) == (3, None)
    assert set(replay.difference.replayed) == {"y_R.seed", "y_R.index"}


def test_a_witness_of_other_inputs_or_coins_differs(honest: Path, inputs: Inputs) -> None:
    assert not replay_users(heard(honest), witness_of((inputs + 1) % 3)).identical
    assert not replay_users(heard(honest), Witness(run="recorded", key=bytes(32), inputs=inputs)).identical
    short = replay_users(heard(honest), witness_of(inputs[:20]))
    assert short.difference is not None
    assert "knows 20 users" in short.difference.replayed["refusal"]


def test_a_witness_of_another_run_is_bad_input(honest: Path, inputs: Inputs) -> None:
    with pytest.raises(BadInput, match="belongs to the run other"):
        replay_users(heard(honest), Witness(run="other", key=KEY, inputs=inputs))


def test_without_a_setup_nothing_can_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no setup"):
        replay_analyst(heard(write(tmp_path / "t", [], None)))


async def test_live_the_analyst_says_the_same(honest: Path) -> None:
    replay = await replay_live(heard(honest))
    assert replay.identical
    assert replay.compared == 5


async def test_live_a_changed_reply_leads_elsewhere(honest: Path, tmp_path: Path) -> None:
    changed = rewrite(honest, tmp_path / "t", first_of_round(2, other_index))
    replay = await replay_live(heard(changed), "recorded")
    assert replay.difference is not None
    assert replay.difference.round == 3
    assert replay.difference == replay_analyst(heard(changed)).difference


def test_runs_are_the_same_however_they_were_cut(
    honest: Path, tmp_path: Path, protocol: Protocol, inputs: Inputs
) -> None:
    said = list(conversation(protocol, inputs, KEY, run="recorded", nodes=1, chunk=50))
    diff = compare_runs(heard(honest), heard(write(tmp_path / "t", said)))
    assert diff.record() == {
        "identical": True,
        "first_difference": None,
        "replies": {"a": 150, "b": 150},
        "different": 0,
        "only": {"a": 0, "b": 0},
    }


def test_the_first_reply_that_differs_is_shown(honest: Path, tmp_path: Path) -> None:
    diff = compare_runs(heard(honest), heard(rewrite(honest, tmp_path / "t", first_of_round(2, nudge)))).record()
    assert (diff["different"], diff["identical"]) == (1, False)
    first = diff["first_difference"]
    assert (first["round"], first["user"]) == (2, 2)
    assert first["b"]["a.step"] == first["a"]["a.step"] + 1


def test_replies_of_one_run_alone_are_counted(honest: Path, tmp_path: Path) -> None:
    path = rewrite(honest, tmp_path / "t", lambda said: [each for each in said if each[0] != "node-2"])
    diff = compare_runs(heard(honest), heard(path)).record()
    assert diff["only"]["b"] == 0
    assert diff["only"]["a"] == 150 - diff["replies"]["b"] > 0
    assert diff["first_difference"]["b"] is None


def test_another_setup_comes_first(honest: Path, tmp_path: Path) -> None:
    change = replace_first(Setup, lambda each: replace(each, epsilon=2.0))
    diff = compare_runs(heard(honest), heard(rewrite(honest, tmp_path / "t", change))).record()
    assert diff["first_difference"]["a"] == {"epsilon": 1.0}
    assert diff["first_difference"]["b"] == {"epsilon": 2.0}


@pytest.mark.parametrize("most", [1, 500])
def test_blocks_do_not_change_a_comparison(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("parley.emulator.record.diff.MOST_BYTES", most)
    diff = compare_runs(heard(honest), heard(rewrite(honest, tmp_path / "t", first_of_round(2, nudge)))).record()
    assert diff["different"] == 1
    assert diff["first_difference"]["user"] == 2
