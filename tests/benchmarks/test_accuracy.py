"""Short versions of the benchmarks behind docs/accuracy.md (auto_grid has a file of its own)."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import accuracy, constants, near_limit, strategy
from benchmarks.accuracy import PAGE
from benchmarks.contracts import block
from benchmarks.grid import table
from parley.protocols.workloads.kendall import Kendall


def test_all_protocols_on_one_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "USERS", 2000)
    monkeypatch.setattr(accuracy, "Kendall", lambda levels: Kendall(levels=(3, 3)))
    lines = accuracy.sweep_table(3, 1).splitlines()
    assert len(lines) == 2 + 9
    errors = [float(line.split("|")[2]) for line in lines[2:]]
    assert errors == sorted(errors)


def test_a_cell_near_the_limit_is_kept_once(tmp_path: Path) -> None:
    found = near_limit.cell("kendall8", 2.0, 2000, "two-round-tuned", 4, 1)
    assert found["limit"] < found["predicted"] < 3 * found["limit"]
    for _ in range(2):
        near_limit.keep(tmp_path / "cells.json", found)
    assert near_limit.saved([tmp_path / "cells.json"]) == [found]
    assert "| kendall8 | 1 | 2 | 2,000 | two-round-tuned |" in near_limit.table([found], {})


def test_a_constant_that_is_changed_comes_back() -> None:
    case = constants.Case("kendall8", 1.0)
    assert case.ratio() == 1.0
    assert 0.8 < case.ratio(power=1.0) < 1.3
    before = constants.scalar_question.EVEN
    assert 0.9 < constants.even_share(case, 0.3) < 1.2
    assert before == constants.scalar_question.EVEN


def test_tables_for_few_inputs_are_those_of_the_page() -> None:
    found = strategy.cell("Kendall 3x3", "two", 2.0, 4)
    assert found["before"]["outputs"] == 0 < found["now"]["outputs"]
    kept = json.loads((PAGE.parents[1] / "benchmarks" / "strategy.json").read_text())
    assert block(PAGE.read_text(), "strategy").strip() == table(strategy.HEADS, strategy.rows(kept))
    assert len(re.findall("two", table(strategy.HEADS, strategy.rows([found])))) == 1
