"""The promises of docs/accuracy.md are read off its tables, and a number beyond its limit breaks one."""

import pytest

from benchmarks.accuracy import PAGE
from benchmarks.contracts import CONTRACTS, block, report, rows


def broken(text: str) -> list[str]:
    return [verdict.promise for verdict in (contract(text) for contract in CONTRACTS) if not verdict.kept]


def test_the_page_keeps_its_promises(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(PAGE.read_text()) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "column", "value", "promise"),
    [
        ("sweep", "ratio", "1.16", "within 15%"),
        ("near limit", "over limit", "1.41", "over the limit"),
        ("near limit", "coverage", "92.9%", "95% intervals of two-round-tuned"),
        ("auto grid", "below 92%", "9", "a protocol's intervals"),
    ],
)
def test_a_number_beyond_its_limit_breaks_a_promise(table: str, column: str, value: str, promise: str) -> None:
    text = PAGE.read_text()
    row = next(each for each in rows(text, table) if each["protocol"] == "two-round-tuned")
    line, changed = ("| " + " | ".join(each.values()) + " |" for each in (row, {**row, column: value}))
    assert line in text
    assert any(promise in each for each in broken(text.replace(line, changed, 1)))


def test_one_miss_in_five_breaks_the_promise_of_auto() -> None:
    text = PAGE.read_text()
    said = next(line for line in block(text, "auto grid").splitlines() if line.startswith("Over "))
    assert any(
        "auto within 5%" in each for each in broken(text.replace(said, "Over 100 problems `auto` is so, on 80;"))
    )


def test_a_table_that_is_missing_breaks_its_promises() -> None:
    assert len(broken("")) == len(CONTRACTS)
