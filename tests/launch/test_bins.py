"""Bins from the flags to the result record: what was measured, what bins hide, and the truth without them."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from parley import Answer, audit, replay
from parley.emulator.errors import BadInput
from parley.launch.api import make_problem
from parley.launch.bins import Wanted, unbinned_truth
from tests.launch.conftest import Parley

USERS = 3000


def columns() -> dict[str, np.ndarray]:
    """A skewed column in whole numbers, and one that follows it."""
    generator = np.random.default_rng(4)
    wait = np.rint(generator.lognormal(2.0, 0.9, USERS))
    return {"wait": wait, "late": np.rint(wait + generator.normal(0, 6, USERS))}


RANGES = ["wait=0:200/200", "late=-30:220/250"]


@pytest.mark.parametrize("statistic", ["kendall", "kendall-b"])
def test_a_run_in_bins_at_quantiles_is_measured_audited_and_replayed(statistic: str, tmp_path: Path) -> None:
    problem = make_problem(columns(), statistic, columns="wait,late", bins="quantile", levels=(5, 5), ranges=RANGES)
    answer = problem.run(epsilon=4.0, protocol="one-round-tuned", in_memory=True, seed=1, out=tmp_path / "run")
    name = {"kendall": "tau-a", "kendall-b": "tau-b"}[statistic]
    assert answer.measured == f"Kendall's {name} of wait and late, 5 x 5 bins at private quantiles"
    assert (answer.statistic, answer.protocol, answer.rounds_declared) == (statistic, "binned", 2)
    data = columns()
    tau = float(kendalltau(data["wait"], data["late"]).statistic)
    assert answer.truth_unbinned is not None
    assert answer.truth_unbinned == pytest.approx(tau if statistic == "kendall-b" else answer.truth_unbinned)
    assert answer.truth != answer.truth_unbinned
    assert answer.interval95_noise is not None
    assert answer.interval95_noise[0] < answer.estimate < answer.interval95_noise[1]
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert {"truth_unbinned", "interval95_noise", "hidden", "hidden_error", "measured"} <= set(record)
    # The page about the run, made from the witness, says the same as the command.
    assert f'"truth_unbinned":{answer.truth_unbinned}' in (tmp_path / "run" / "report.html").read_text()
    assert audit(tmp_path / "run").ok
    assert replay(tmp_path / "run").identical
    assert Answer.load(tmp_path / "run").interval95_noise == answer.interval95_noise


def test_declared_edges_are_the_domain_that_users_consent_to() -> None:
    edges = ["wait=0,3,6,12,200", "late=-30,0,5,10,20,220"]
    problem = make_problem(columns(), "kendall", columns="wait,late", bins=edges)
    assert problem.question.shape == (4, 5)
    assert problem.domain is not None
    assert problem.domain["columns"][0]["edges"] == (0.0, 3.0, 6.0, 12.0, 200.0)
    first = np.clip(np.searchsorted([0, 3, 6, 12, 200], columns()["wait"], side="right") - 1, 0, 3)
    assert (problem.inputs // 5 == first).all()


def test_what_equal_bins_hide_is_a_row_of_its_own() -> None:
    ranges = ["wait=0:200", "late=-30:220"]
    problem = make_problem(columns(), "kendall", columns="wait,late", levels=(6, 6), ranges=ranges)
    answer = problem.simulate(epsilon=4.0, protocol="one-round-tuned", seed=3)
    assert answer.measured == "Kendall's tau-a of wait and late, 6 x 6 bins"
    assert answer.hidden is not None
    assert answer.hidden > 0
    assert "hide about" in str(answer)
    assert "the truth without bins" in str(answer)


def test_the_truth_without_bins_is_that_of_the_values() -> None:
    first, second = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0, 2.0])
    # Of six pairs three agree, one disagrees, and two are tied in one column.
    assert unbinned_truth("kendall", [first, second]) == pytest.approx(2 / 6)
    assert unbinned_truth("kendall-b", [first, second]) == pytest.approx(2 / 5)
    assert unbinned_truth("auc", [first, np.array([0.0, 1.0, 0.0, 1.0])]) == pytest.approx(3.5 / 4)
    assert unbinned_truth("gini-diversity", [first]) is None


def test_a_plan_has_a_row_for_bins(parley: Parley) -> None:
    flags = "--statistic kendall --bins quantile --levels 8x8 --users 50000 --epsilon 1 --protocol one-round-tuned"
    record = json.loads(parley("plan", *flags.split(), "--json").out)
    assert record["bins"]["levels"] == [8, 8]
    assert 0 < record["bins"]["hidden_error"] < record["bins"]["hidden"]
    assert record["protocols"][0]["rounds"] == 2
    assert "show the margins" in parley("plan", *flags.split()).out


def test_resolutions_belong_to_ranges() -> None:
    wanted = Wanted.of(["quantile"], RANGES)
    assert wanted.ranges == ("wait=0:200", "late=-30:220")
    assert wanted.fine_levels("kendall", ["wait", "late"], []) == "200x250"
    assert wanted.fine_levels("kendall", ["wait", "other"], []) == "200x1024"
    with pytest.raises(BadInput, match="whole number of fine levels"):
        Wanted.of(["quantile"], ["wait=0:200/x"])
