"""The race behind the table of `auto`, and the promises that are read off the page."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import auto
from benchmarks.accuracy import PAGE
from benchmarks.auto import Cell, Finish, Race, cells, race, races, render
from benchmarks.contracts import CONTRACTS, report, rows
from benchmarks.grid import problems
from parley.protocols import registry
from parley.protocols.planning import plan

SURE = 5.0


def finish(name: str, rmse: float, trials: int = 200) -> Finish:
    return Finish(name=name, rmse=rmse, doubt=0.05, trials=trials)


def raced(cell: Cell, over_other: float = 0.9, over_baseline: float = 0.8) -> Race:
    rivals = (finish("two-round", 1 / over_other), finish("frequency-oue", 1 / over_baseline), finish("quantise", 9.0))
    return Race(cell=cell, chosen=finish("two-round-tuned", 1.0), rivals=rivals)


def test_a_race_asks_everybody_and_stops_when_it_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(problem="diversity 64", epsilon=1.0, users=10_000, trials=40)
    workload = problems()[cell.problem]
    chosen = registry.design("auto", workload, epsilon=cell.epsilon, users=cell.users).name
    close = ({"one-round-tuned", "two-round-tuned"} - {chosen}).pop()
    monkeypatch.setattr(auto, "MOST", 80)
    monkeypatch.setattr(auto, "_told_apart", lambda own, rival: rival.name != close)
    found = race(cell)
    assert found.chosen.name == chosen
    names = {each.name for each in found.rivals} | {found.chosen.name}
    assert names == {option.name for option in plan.rank_protocols(workload, cell.epsilon, cell.users)}
    trials = {each.name: each.trials for each in found.rivals}
    # Far behind: the pilot tells. Close: as many trials as there may be, and the choice keeps up.
    assert trials["two-round-black-box"] == auto.PILOT
    assert trials[close] == found.chosen.trials == 80
    ratio, doubt = found.against(found.closest())
    assert ratio - SURE * doubt <= auto.OF_ALL, f"{ratio} +- {doubt}"


def test_the_error_of_an_rmse_follows_from_the_squares() -> None:
    option = plan.rank_protocols(problems()["diversity 64"], 1.0, 10_000, names=["frequency-subset"])[0]
    runner = auto.Runner(0, option, np.zeros(2, np.int64), 0.0)
    runner.errors = np.random.default_rng(1).standard_normal(20_000)
    # Of normal errors: 1/sqrt(2 n).
    assert runner.finish().doubt == pytest.approx(1 / np.sqrt(2 * 20_000), rel=0.05)


def test_a_race_that_is_over_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "races.jsonl"
    asked: list[Cell] = []

    def pretend(cell: Cell) -> Race:
        asked.append(cell)
        return raced(cell)

    monkeypatch.setattr(auto, "race", pretend)
    first = races(100, 1, file)
    assert [each.cell for each in first] == asked == cells(100)
    # Cut off after ten lines: only the others are run.
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:10]))
    asked.clear()
    assert races(100, 1, file) == first
    assert asked == cells(100)[10:]
    assert races(100, 1, file) == first


def page(found: list[Race]) -> str:
    """The page with another table of `auto`."""
    before, rest = PAGE.read_text().split("<!-- auto -->\n")
    return f"{before}<!-- auto -->\n{render(found)}\n<!-- end auto -->{rest.split('<!-- end auto -->')[1]}"


def broken(text: str) -> list[str]:
    return [verdict.promise for verdict in (contract(text) for contract in CONTRACTS) if not verdict.kept]


def test_the_page_keeps_its_promises(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(PAGE.read_text()) == 0, capsys.readouterr().out


def test_a_worse_choice_breaks_a_promise() -> None:
    good = [raced(cell) for cell in cells(100)]
    kept = broken(page(good))
    assert not any("auto" in promise for promise in kept)
    worse = [*good[1:], raced(good[0].cell, over_other=1.06)]
    assert set(broken(page(worse))) - set(kept) == {"auto at most 5% worse than the best of all"}
    beaten = [*good[1:], raced(good[0].cell, over_other=1.02, over_baseline=1.02)]
    assert ["auto no worse" in promise for promise in set(broken(page(beaten))) - set(kept)] == [True]
    assert len(set(broken(page(good[1:]))) - set(kept)) == 2


@pytest.mark.parametrize(
    ("table", "column", "value", "promise"),
    [
        ("sweep", "ratio", "1.16", "within 15%"),
        ("coverage", "held the truth", "97.1%", "95% intervals"),
        ("coverage", "held the truth", "92.9%", "95% intervals"),
    ],
)
def test_a_number_beyond_its_limit_breaks_a_promise(table: str, column: str, value: str, promise: str) -> None:
    text = PAGE.read_text()
    row = rows(text, table)[3]
    line = "| " + " | ".join(row.values()) + " |"
    changed = text.replace(line, line.replace(f"| {row[column]} |", f"| {value} |"), 1)
    assert changed != text
    assert any(promise in each for each in broken(changed))


def test_a_table_that_is_missing_breaks_its_promises() -> None:
    assert len(broken("")) == len(CONTRACTS)


def test_the_worst_cells_are_said() -> None:
    found = [raced(cell) for cell in cells(100)]
    found[7] = raced(replace(found[7].cell), over_other=0.99)
    assert "at most 0.990 ± 0.070 times (Kendall 8x8, eps 2, 100,000 users, two-round)" in render(found)
