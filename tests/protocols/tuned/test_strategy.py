"""A table as first channel: who gets one, what nodes refuse, and that nobody solves for it again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.emulator.record.replay import replay_analyst, replay_users
from parley.emulator.wire.codec import pack, unpack
from parley.protocols import registry
from parley.protocols.planning.families import first_channels
from parley.protocols.randomizers.channels.channel import exact_loss, response
from parley.protocols.randomizers.exact import exponential_lower, guarded
from parley.protocols.tuned.codebook_round import CODEBOOK, MOST_TABLED
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from tests.emulator.audit.recordings import audited, heard, inputs_for, record, witness_of

NAMES = ("one-round-tuned", "two-round-tuned")
SMALL = Kendall(levels=(3, 3))


def made(name: str = "one-round-tuned", workload: Any = SMALL, epsilon: float = 1.0, users: int = 3000) -> Any:
    return registry.design(name, workload, epsilon=epsilon, users=users)


@pytest.mark.parametrize("name", NAMES)
def test_the_planner_takes_a_table_for_few_inputs_and_a_codebook_for_many(name: str) -> None:
    for workload in (SMALL, AreaUnderCurve(levels=4), GiniMeanDifference(levels=8)):
        few = made(name, workload, users=10_000)
        assert few.strategy is not None
        assert not set(CODEBOOK) & set(few.parameters())
        best = few.predicted_rmse(np.full(few.inputs, 1 / few.inputs))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(first_channels, "MOST_TABLED", 0)
            assert best < made(name, workload, users=10_000).predicted_rmse(np.full(few.inputs, 1 / few.inputs))
    many = made(name, GiniMeanDifference(levels=MOST_TABLED + 1))
    assert many.strategy is None
    assert "strategy" not in many.parameters()
    assert set(CODEBOOK) <= set(many.parameters())


def test_at_a_large_epsilon_it_is_randomised_response() -> None:
    strategy = made(epsilon=14.0).strategy
    assert np.array_equal(strategy, response(9, 14.0).weights)


@pytest.mark.parametrize("epsilon", [1e-2, 30.0])
def test_extreme_epsilons_are_designed_for_too(epsilon: float) -> None:
    """Tables that do not determine the histogram in double precision are passed over, as codebooks are."""
    for name in NAMES:
        if name == "one-round-tuned" or epsilon < 10:
            assert made(name, epsilon=epsilon).predicted_rmse() > 0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 9.0])
def test_the_loss_is_at_most_epsilon_and_the_histogram_is_decoded_without_bias(epsilon: float) -> None:
    protocol = made(workload=GiniDiversity(levels=6), epsilon=epsilon)
    assert exact_loss(protocol.strategy) <= exponential_lower(guarded(epsilon))
    logs = protocol.rounds[0].log_likelihood(
        {},
        {
            f"candidate.{name}": each
            for name, each in protocol.codebook.in_cells(np.arange(protocol.codebook.cells)).items()
        },
    )
    assert (logs.max(axis=1) - logs.min(axis=1)).max() <= epsilon
    np.testing.assert_allclose(np.exp(logs).sum(axis=0), 1.0, atol=1e-12)
    # Expected counts of users who all hold one input, for every input.
    decoded = protocol.decoder.unbiased(protocol.decoder.scores(np.exp(logs)))
    np.testing.assert_allclose(decoded, np.eye(6), atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_make_the_round_trip(name: str) -> None:
    protocol = made(name)
    again: Any = registry.build(name, unpack(pack(protocol.parameters())))
    assert np.array_equal(again.strategy, protocol.strategy)
    assert again.strategy.dtype == np.int64
    assert (again.power, again.seeds, again.candidates, again.top) == (None,) * 4
    assert pack(again.parameters()) == pack(protocol.parameters())


def _moved(row: int, column: int, by: int) -> Any:
    def change(table: Any) -> Any:
        table[row, column] += by
        table[row, (column + 1) % table.shape[1]] -= by
        return table

    return change


def _emptied(table: Any) -> Any:
    return _moved(2, 0, 1 - int(table[2, 0]))(table)


def _mixed(table: Any) -> Any:
    table[4] = (table[0] + table[1]) // 2
    table[4, 0] += table[0].sum() - table[4].sum()
    table[5] = table[4]
    return table


def _unused(table: Any) -> Any:
    return np.insert(table, 2, 0, axis=1)


def _longer(table: Any) -> Any:
    table[3, 1] += 1
    return table


HOSTILE: dict[str, Any] = {
    r"output 0 has the weight 1 under input 2 and \d+ under input \d": _emptied,
    r"output 0 of input 7 has the weight -\d+": _moved(7, 0, -(1 << 48)),
    r"the weights of input 3 add up to \d+, those of input 0 to \d+": _longer,
    "output 2 is one that nobody sends": _unused,
    "the weights of input 5 are a combination of those of the inputs before it": _mixed,
    r"a table of int64 \(8, \d+\) does not suit 9 inputs": lambda table: table[:8],
    r"a table of int64 \(9, 300\) does not suit 9 inputs": lambda table: np.ones((9, 300), dtype=np.int64),
    "should be an array of int64": lambda table: table.astype(np.float64),
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_hostile_tables_are_refused_with_the_entry_that_fails(reason: str) -> None:
    parameters = dict(made().parameters())
    with pytest.raises(BadInput, match=reason):
        registry.build("one-round-tuned", {**parameters, "strategy": HOSTILE[reason](parameters["strategy"].copy())})


def test_a_table_made_for_a_larger_epsilon_is_refused() -> None:
    parameters = {**made(epsilon=1.01).parameters(), "epsilon": 1.0}
    with pytest.raises(BadInput, match=r"output \d+ has the weight"):
        registry.build("one-round-tuned", parameters)


def test_it_is_a_table_or_a_codebook() -> None:
    parameters = dict(made().parameters())
    codebook = {"power": 2.0, "seeds": 64, "candidates": 16, "top": 3}
    neither = {name: value for name, value in parameters.items() if name != "strategy"}
    with pytest.raises(BadInput, match="got none of these"):
        registry.build("one-round-tuned", neither)
    for name in CODEBOOK:
        with pytest.raises(BadInput, match=f"got {name} and a table"):
            registry.build("one-round-tuned", {**parameters, name: codebook[name]})
        with pytest.raises(BadInput, match="takes a table, or"):
            registry.build(
                "one-round-tuned", {**neither, **{each: codebook[each] for each in CODEBOOK if each != name}}
            )
    assert registry.build("one-round-tuned", {**neither, **codebook}).inputs == 9


def test_tables_are_for_few_inputs() -> None:
    many = made(workload=GiniMeanDifference(levels=MOST_TABLED + 1))
    parameters = {name: value for name, value in many.parameters().items() if name not in CODEBOOK}
    with pytest.raises(BadInput, match=f"from 2 to {MOST_TABLED}"):
        registry.build("one-round-tuned", {**parameters, "strategy": response(MOST_TABLED + 1, 1.0).weights})


def test_nobody_has_shown_what_a_shuffler_makes_of_a_table() -> None:
    shuffled = registry.design("shuffled", SMALL, epsilon=1.0, users=3000, delta=1e-6)
    with pytest.raises(BadInput, match="strategy"):
        registry.build("shuffled", {**shuffled.parameters(), "strategy": made().strategy})


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_audited_and_replayed_without_solving_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = made(name, users=400)
    assert protocol.strategy is not None

    def solved_again(*_: Any) -> None:
        raise AssertionError("a table was solved for again")

    monkeypatch.setattr(first_channels, "strategy_table", solved_again)
    inputs = inputs_for(protocol, 400)
    path = record(tmp_path / "t.parley", protocol, inputs)
    report = audited(path, inputs)
    assert report.ok, report.record()
    conversation = heard(path)
    assert replay_analyst(conversation).identical
    assert replay_users(conversation, witness_of(inputs)).identical
