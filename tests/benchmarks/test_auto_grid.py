"""The grid of problems drawn at random: what is drawn, what is measured, and what the page says of it."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import auto_grid
from benchmarks.auto_grid import (
    best_other,
    chosen_again,
    measured,
    missed,
    problem,
    ratio,
    reason,
    save,
    shown,
    surely_high,
    surely_low,
    usual_limit,
)
from parley.protocols.planning import plan
from parley.protocols.planning.limit import limit
from parley.protocols.workloads.auc import AreaUnderCurve


def row(name: str, rmse: float, *, held: int = 95, trials: int = 100, inside: float = 1.0) -> dict[str, Any]:
    fixed = {"doubt": 0.01, "bias": 0.0, "predicted": rmse, "trials": trials}
    return {"protocol": name, "rmse": rmse, "held": held, "inside": inside, **fixed}


def found(*rows: dict[str, Any], auto: str = "two-round-tuned", least: float = 0.1) -> dict[str, Any]:
    named = {
        "problem": "GMD 9",
        "shape": "beta",
        "epsilon": 1.0,
        "users": 1000,
        "truth": 0.3,
        "limit": least,
        "usual": 0.1,
    }
    return {**named, "auto": auto, "protocols": list(rows)}


def test_a_seed_draws_the_same_problems_and_another_seed_others() -> None:
    drawn = [problem(1, number) for number in range(30)]
    for number, each in enumerate(drawn):
        again = problem(1, number)
        assert (again.title, again.shape, again.epsilon, again.users) == (
            each.title,
            each.shape,
            each.epsilon,
            each.users,
        )
        np.testing.assert_array_equal(again.counts, each.counts)
        assert each.counts.sum() == each.users
        assert len(each.counts) == each.workload.size
        assert 0.1 <= each.epsilon <= 10
        assert 300 <= each.users <= 1_000_000
        if isinstance(each.workload, AreaUnderCurve):
            assert each.counts[0::2].sum()
            assert each.counts[1::2].sum()
    assert {each.title.split()[0] for each in drawn} >= {"Kendall", "AUC", "GMD", "diversity"}
    assert [each.title for each in drawn] != [problem(2, number).title for number in range(30)]


def test_one_problem_from_end_to_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(auto_grid, "PILOT", 10)
    monkeypatch.setattr(auto_grid, "MOST", 20)
    asked = next(each for each in (problem(1, number) for number in range(50)) if each.title == "AUC 3")
    done = measured(asked, 1)
    names = [each["protocol"] for each in done["protocols"]]
    assert names == [option.name for option in plan.rank_protocols(asked.workload, asked.epsilon, asked.users)]
    assert done["auto"] in names
    assert done["limit"] > 0
    assert all(each["trials"] >= 10 and 0 <= each["held"] <= each["trials"] for each in done["protocols"])
    save(tmp_path / "grid.json", 1, [done])
    text = shown([done])
    assert "Over 1 problems" in text
    assert all(f"| {name} |" in text for name in names)


def test_a_miss_is_one_beyond_three_standard_errors() -> None:
    near = found(row("two-round-tuned", 1.08), row("frequency-grr", 1.0))
    far = found(row("two-round-tuned", 1.2), row("frequency-grr", 1.0))
    assert ratio(*best_other(near))[0] == pytest.approx(1.08)
    assert not missed(near)
    assert missed(far)
    assert "predicted" in reason(far)
    assert "| GMD 9 | beta |" in shown([near, far])
    verbatim = found(row("two-round-tuned", 1.2), row("one-round", 1.0))
    assert "the paper's own constants" in reason(verbatim)


def test_coverage_misses_when_chance_does_not_explain_it() -> None:
    assert surely_low(row("x", 1.0, held=80))
    assert not surely_low(row("x", 1.0, held=90))
    always = row("x", 1.0, held=400, trials=400)
    assert surely_high(always, found())
    assert not surely_high(row("x", 1.0, held=100), found())
    # Where the limit is nearly 0, or intervals are cut at the ends of the range, they may be as wide as they like.
    assert not surely_high(always, found(least=0.0))
    assert not surely_high(always, found(least=0.009))
    assert surely_high(always, found(least=0.011))
    assert not surely_high(row("x", 1.0, held=400, trials=400, inside=0.5), found())


def test_shares_that_are_even_but_for_chance_have_nearly_no_slope() -> None:
    even, uneven = (next(p for p in map(partial(problem, 1), range(99)) if (p.title, p.shape) == each) for each in EVEN)
    limits = [limit(each.workload, each.counts / each.users, each.epsilon, each.users) for each in (even, uneven)]
    assert 0 < limits[0] < auto_grid.NEARLY_NONE * usual_limit(even)
    assert limits[1] > auto_grid.NEARLY_NONE * usual_limit(uneven)


EVEN = (("diversity 12", "even"), ("diversity 11", "skewed"))


def test_a_later_version_runs_what_changed_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_grid, "PILOT", 10)
    monkeypatch.setattr(auto_grid, "MOST", 20)
    asked = next(each for each in map(partial(problem, 1), range(50)) if each.title == "AUC 3")
    done = measured(asked, 1)
    # So far apart that no rival needs more trials.
    bad = {row["protocol"]: {**row, "rmse": 9.0 * 9**n, "predicted": 9.0} for n, row in enumerate(done["protocols"])}
    again = chosen_again({**done, "auto": "", "protocols": list(bad.values())}, asked, 1, ["one-round-tuned"])
    assert again["auto"] == done["auto"]
    rows = {row["protocol"]: row for row in again["protocols"]}
    assert rows["one-round-tuned"]["rmse"] < 9
    assert all(row["rmse"] == bad[name]["rmse"] for name, row in rows.items() if name != "one-round-tuned")
    assert all(row["predicted"] < 9 for name, row in rows.items() if name != "three-round")
