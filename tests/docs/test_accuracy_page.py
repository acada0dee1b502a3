"""The table of near-limit figures in docs/accuracy.md is what is stored beside the benchmark."""

import json
from pathlib import Path

from benchmarks.contracts import block
from benchmarks.near_limit import key, table

ROOT = Path(__file__).parents[2]
STORED = ("near_limit.json", "near_limit_one_round.json", "near_limit_others.json")
BEFORE = ("near_limit_before.json", "near_limit_before_one_round.json", "near_limit_before_others.json")


def figures(name: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((ROOT / "benchmarks" / name).read_text())
    return found


def lines(text: str) -> list[str]:
    """A table without its heading."""
    return [line for line in text.splitlines() if line.startswith("|")][2:]


def test_every_row_comes_from_a_stored_figure_and_none_is_left_out() -> None:
    shown = lines(block((ROOT / "docs" / "accuracy.md").read_text(), "near limit"))
    earlier = [{key(row): row for row in figures(name)} for name in BEFORE]
    made = {line for name in STORED for before in earlier for line in lines(table(figures(name), before))}
    assert set(shown) <= made
    assert len(shown) >= len(figures(STORED[0]))
