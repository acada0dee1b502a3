"""`parley run --shards`: several boards between processes, one estimate, one record to audit."""

import json
from pathlib import Path

import pytest

from tests.launch.conftest import PROBLEM, Parley

RUN = ("run", *PROBLEM, "--users", 301, "--seed", 7, "--quiet", "--json")
# Slow replies keep each round open until its victim has been killed.
KILLS = """
name = "kills"
seed = 1

[[fault]]
kind = "delay"
direction = "up"
messages = ["replies"]
rounds = [1, 2]
seconds = 2.0

[[fault]]
kind = "kill"
nodes = "board-1"
rounds = [1]

[[fault]]
kind = "kill"
nodes = "shard-0"
rounds = [2]
"""


def test_two_boards_give_the_estimate_of_one(parley: Parley, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "two"
    said = parley(*RUN, "--processes", 3, "--shards", 2, "--out", out)
    alone = json.loads((finished / "result.json").read_text())
    assert said.code == 0, said.err
    for name in ("estimate", "interval95", "users", "replied", "rounds", "bytes_down"):
        assert said.record[name] == alone[name]
    audit = parley("audit", out, "--json").record
    assert audit["ok"], audit
    assert set(audit["integrity"]["shards"]) == {"shard-0", "shard-1"}
    assert parley("replay", out, "--role", "all").code == 0
    assert parley("diff", out, finished).code == 0
    shown = parley("show", out, "--json").record
    kinds = [record["kind"] for record in shown["records"]]
    assert kinds.count("tally") == kinds.count("tie") == 6
    assert parley("report", out).code == 0
    assert "shard-0" in parley("show", out, "--kind", "tally").out
    # The keys of a run's boards and sub-analysts are gone when it is over.
    assert not list((out / "state").glob("*.signing"))


def test_a_board_and_a_sub_analyst_are_killed(parley: Parley, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "kills.toml").write_text(KILLS)
    out, conditions = tmp_path / "killed", ("--conditions", tmp_path / "kills.toml")
    said = parley(*RUN, "--processes", 2, "--shards", 2, "--out", out, *conditions)
    assert said.code == 0, said.err
    assert said.record["estimate"] == json.loads((finished / "result.json").read_text())["estimate"]
    assert parley("audit", out, "--json").record["ok"]
    events = parley("show", out, "--kind", "event").out
    assert "board-1 is killed" in events
    assert "shard-0 is killed" in events


def test_links_between_boards_are_encrypted_too(parley: Parley, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "secure"
    said = parley(*RUN, "--processes", 2, "--shards", 2, "--out", out, "--secure")
    assert said.code == 0, said.err
    assert said.record["estimate"] == json.loads((finished / "result.json").read_text())["estimate"]
    assert parley("audit", out, "--json").record["authorship"]["verdict"] == "pass"


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--processes", 2, "--shards", 3), "give 2 to 2"),
        (("--processes", 2, "--shards", 1), "give 2 to 2"),
        (("--processes", 2, "--shards", 2, "--relays", 1), "--shards and --relays"),
        (("--processes", 2, "--shards", 2, "--port", 17000), "leave out --port"),
        (("--processes", 2, "--shards", 2, "--in-memory"), "leave out --in-memory"),
    ],
)
def test_what_does_not_go_together_is_refused(parley: Parley, flags: tuple[object, ...], why: str) -> None:
    said = parley(*RUN, *flags)
    assert said.code == 2
    assert why in said.err


def test_a_shuffler_has_one_board(parley: Parley) -> None:
    problem = ("--statistic", "kendall", "--levels", "4x4", "--epsilon", "1", "--protocol", "shuffled")
    said = parley("run", *problem, "--users", 3000, "--processes", 2, "--shards", 2, "--quiet")
    assert said.code == 2
    assert "one crowd" in said.err
