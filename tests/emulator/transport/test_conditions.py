"""Conditions: what a file may say, and that a link does what its rules say, repeatably."""

from collections import Counter
from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.transport.conditions import Conditions, Fault, conditions_from, read_conditions
from parley.emulator.transport.faults import Fate, Link

READY_MADE = sorted((Path(__file__).parents[3] / "launch" / "conditions").glob("*.toml"))


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_the_ready_made_files_are_read(path: Path) -> None:
    assert read_conditions(path).name == path.stem


def test_all_six_are_there() -> None:
    assert {path.stem for path in READY_MADE} == {"lan", "wan", "mobile", "lossy", "partitioned", "hostile"}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({}, "needs a kind"),
        ({"kind": "dealy"}, "did you mean delay"),
        ({"kind": "loss", "probability": 2.0}, "not between 0 and 1"),
        ({"kind": "loss", "probability": "often"}, "should be float"),
        ({"kind": "loss", "direction": "sideways"}, "no direction"),
        ({"kind": "loss", "messages": ["replys"]}, "did you mean replies"),
        ({"kind": "loss", "node": "a"}, "did you mean nodes"),
        ({"kind": "delay", "seconds": -1.0}, "negative time"),
        ({"kind": "delay", "after": 2.0, "until": 1.0}, "before its"),
        ({"kind": "delay", "distribution": "normal"}, "did you mean"),
        ({"kind": "bandwidth", "bytes_per_second": 0.0}, "above 0"),
        ({"kind": "loss", "burst": 0}, "at least 1"),
    ],
)
def test_wrong_rules_are_named(rule: dict[str, object], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        conditions_from({"fault": [rule]})


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        read_conditions(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(BadInput, match="not TOML"):
        read_conditions(tmp_path / "bad.toml")
    with pytest.raises(BadInput, match="no key"):
        conditions_from({"faults": []})


def fates(fault: Fault, frames: int = 2000, seed: int = 5) -> list[Fate]:
    link = Link(Conditions(seed=seed, faults=(fault,)), "node-1", "up")
    return [link.judge(b"x" * 100, "replies", 1, now=1.0) for _ in range(frames)]


def test_a_link_is_a_function_of_its_seed() -> None:
    fault = Fault(kind="loss", probability=0.3)
    assert fates(fault) == fates(fault)
    assert fates(fault) != fates(fault, seed=6)


def test_losses_come_at_their_rate_and_in_bursts() -> None:
    lost = [not fate.copies for fate in fates(Fault(kind="loss", probability=0.3))]
    # Binomial(2000, 0.3) lies outside 474..729 with probability below 1e-6 a side.
    assert 474 <= sum(lost) <= 729
    lost = [not fate.copies for fate in fates(Fault(kind="loss", probability=0.02, burst=5))]
    runs = "".join("x" if each else " " for each in lost).split()
    assert min(map(len, runs[:-1])) >= 5


def test_every_kind_leaves_a_cause() -> None:
    kinds = Counter()
    for kind in ("delay", "loss", "duplicate", "reorder", "corrupt", "bandwidth", "hold", "partition", "straggler"):
        fault = Fault(kind=kind, seconds=0.5, until=3.0, bytes_per_second=1000.0)
        (fate,) = fates(fault, frames=1)
        kinds.update(cause for cause, _ in fate.causes)
        if kind == "duplicate":
            assert len(fate.copies) == 2
        elif kind == "corrupt":
            assert fate.copies[0][1] != b"x" * 100
        elif kind not in ("loss", "partition"):
            assert fate.copies[0][0] > 0
        else:
            assert fate.copies == ()
    assert set(kinds.values()) == {1}
    assert len(kinds) == 9


def test_delays_are_independent_and_bandwidth_is_not() -> None:
    delays = [
        fate.copies[0][0] for fate in fates(Fault(kind="delay", distribution="lognormal", seconds=1.0, spread=1.0))
    ]
    assert sorted(delays) != delays
    assert 0.8 < sorted(delays)[1000] < 1.25
    queued = [fate.copies[0][0] for fate in fates(Fault(kind="bandwidth", bytes_per_second=1000.0), frames=10)]
    assert queued == pytest.approx([0.1 * number for number in range(1, 11)])


def test_selectors() -> None:
    fault = Fault(kind="loss", nodes="node-*", direction="up", messages=("replies",), rounds=(2,), after=1.0, until=2.0)
    assert fault.concerns("node-7", "up", "replies", 2, 1.5)
    for other in (
        ("analyst", "up", "replies", 2, 1.5),
        ("node-7", "down", "replies", 2, 1.5),
        ("node-7", "up", "ready", 2, 1.5),
        ("node-7", "up", "replies", 1, 1.5),
        ("node-7", "up", "replies", 2, 0.5),
        ("node-7", "up", "replies", 2, 2.0),
    ):
        assert not fault.concerns(*other)
