"""Process faults: planned from a seed, on record before they happen; and short versions of benchmarks/chaos.py."""

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from benchmarks.chaos import perform_all, summary
from benchmarks.deeds import Act
from benchmarks.forgeries import FORGERIES
from benchmarks.scenes import make_scene, speakable
from benchmarks.stage import Overheard, Spoken
from benchmarks.treachery import ACTS, draw_kind, make_act, perform_act
from parley.emulator.errors import BadInput
from parley.emulator.transport.conditions import LINK_KINDS, PROCESS_KINDS, Conditions, Fault, read_conditions
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Replies
from parley.launch.cluster.fault_driver import READY_MADE, FaultDriver, Strike, find_conditions, plan_strikes
from tests.launch.conftest import Parley

NODES = ("board", "analyst", "node-0", "node-1")
# Between them: kills of analyst, shuffler and user nodes, a pause of the board, a late start, somebody who stays away.
SEEDS, RUNS = 101, 6
# Both ways in which each act can be done, where there are two that differ in what must be found.
PLOTS = (
    ("another setup", 0),
    ("another setup", 1 + 4),
    ("another setup", 1 + 2 + 4),
    ("lost state", 0),
    ("lost state", 7),
    ("copied state", 0),
    ("copied state", 1),
    ("shared state", 0),
    ("full disk", 200),
    ("equivocating board", 1),
    ("dropping board", 0),
    ("dropping board", 8 + 16),
    ("rewriting board", 0),
    ("forged record", 0),
)


def plan(*faults: Fault, seed: int = 1) -> list[Strike]:
    return plan_strikes(Conditions(seed=seed, faults=faults), NODES)


def test_who_is_struck_follows_from_pattern_and_seed() -> None:
    maybe = Fault(kind="kill", nodes="node-*", probability=0.5, after=1.0, until=2.0)
    assert [each.victim for each in plan(Fault(kind="pause", nodes="node-*"))] == ["node-0", "node-1"]
    assert plan(maybe, seed=3) == plan(maybe, seed=3)
    assert len({tuple(each.victim for each in plan(maybe, seed=seed)) for seed in range(40)}) == 4
    moments = [each.at for seed in range(40) for each in plan(maybe, seed=seed)]
    assert all(1.0 <= moment < 2.0 for moment in moments)
    assert len(set(moments)) == len(moments)
    assert [each.round for each in plan(Fault(kind="kill", nodes="board", rounds=(1, 3)))] == [1, 3]
    assert plan(Fault(kind="late", nodes="board")) == []


def test_whom_others_wait_for_is_not_late() -> None:
    everybody = ("board", "analyst", "shuffler", "relay-0", "node-0")
    late = plan_strikes(Conditions(seed=1, faults=(Fault(kind="late", nodes="*"),)), everybody)
    assert [each.victim for each in late] == ["analyst", "node-0"]


@dataclass
class Scribe:
    """Stands for board and processes: notes what is asked of it."""

    reported: list[str] = field(default_factory=list)
    signals: list[tuple[str, int]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def fault_driver(self, *faults: Fault) -> FaultDriver:
        return FaultDriver(
            strikes=plan(*faults),
            report=lambda kind, detail, number: self.reported.append(detail),
            send_signal=lambda name, number: self.signals.append((name, number)),
            start=self.started.append,
        )


def step(fault_driver: FaultDriver, now: float, recorded: list[str], number: int = 0) -> None:
    fault_driver.step(now, round_number=number, running=set(NODES), recorded=set(recorded))


def test_nothing_happens_before_it_is_on_record() -> None:
    scribe = Scribe()
    fault_driver = scribe.fault_driver(Fault(kind="kill", nodes="board", after=1.0, seconds=0.5))
    step(fault_driver, 0.9, [])
    assert scribe.reported == []
    step(fault_driver, 1.0, [])
    step(fault_driver, 1.1, [])
    assert len(scribe.reported) == 1
    # A board that died has lost it: say it again.
    step(fault_driver, 1.6, [])
    assert len(scribe.reported) == 2
    assert scribe.signals == []
    step(fault_driver, 1.7, scribe.reported)
    assert scribe.signals == [("board", signal.SIGKILL)]
    assert fault_driver.comes_back("board", -signal.SIGKILL, 2.0)
    step(fault_driver, 2.4, scribe.reported)
    assert scribe.started == []
    step(fault_driver, 2.5, scribe.reported)
    assert scribe.started == ["board"]
    assert len(scribe.reported) == 2
    assert not fault_driver.busy


def test_who_is_late_twice_starts_once() -> None:
    """Found by the search over schedules: the second process of one node found its state in use, and the run failed."""
    rules = tuple(Fault(kind="late", nodes="node-0", seconds=seconds) for seconds in (0.5, 2.0, 1.0))
    assert [each.seconds for each in plan_strikes(Conditions(seed=1, faults=rules), ["board", "node-0"])] == [2.0]


def test_rounds_pauses_and_late_starts() -> None:
    scribe = Scribe()
    fault_driver = scribe.fault_driver(
        Fault(kind="pause", nodes="node-0", rounds=(2,), seconds=1.0), Fault(kind="late", nodes="node-1", seconds=3.0)
    )
    assert fault_driver.late == {"node-1"}
    step(fault_driver, 1.0, [], number=1)
    assert [detail for detail in scribe.reported if "node-0" in detail] == []
    step(fault_driver, 2.0, [], number=2)
    step(fault_driver, 2.1, scribe.reported, number=2)
    assert scribe.signals == [("node-0", signal.SIGSTOP)]
    step(fault_driver, 3.2, scribe.reported, number=2)
    assert scribe.signals[-1] == ("node-0", signal.SIGCONT)
    assert scribe.started == ["node-1"]


def test_who_ended_by_itself_does_not_come_back() -> None:
    scribe = Scribe()
    fault_driver = scribe.fault_driver(Fault(kind="kill", nodes="node-*"))
    step(fault_driver, 0.0, [])
    step(fault_driver, 0.1, scribe.reported)
    assert not fault_driver.comes_back("node-0", 0, 0.2)
    assert not fault_driver.comes_back("analyst", -signal.SIGKILL, 0.2)
    assert fault_driver.comes_back("node-1", -signal.SIGKILL, 0.2)


def test_ready_made_conditions() -> None:
    found = {path.stem: read_conditions(path) for path in READY_MADE.glob("*.toml")}
    assert set(found) == {"lan", "wan", "mobile", "lossy", "partitioned", "hostile"}
    assert all(found[name].name == name for name in found)
    assert find_conditions("lossy") == READY_MADE / "lossy.toml"


def test_conditions_that_are_none(parley: Parley) -> None:
    with pytest.raises(BadInput, match="hostile, lan, lossy"):
        find_conditions("stormy")
    Path("bad.toml").write_text('[[fault]]\nkind = "los"\n')
    problem = ("--statistic", "gini-diversity", "--levels", 3, "--users", 9, "--epsilon", 1)
    said = parley("run", *problem, "--conditions", "bad.toml", "--out", "run")
    assert said.code == 2
    assert "did you mean loss?" in said.err
    assert not Path("run").exists()


def test_scenes_have_everything() -> None:
    choices = speakable()
    protocols = {name for name, _ in choices}
    assert len(protocols) >= 14
    scenes = [make_scene(seed, choices) for seed in range(400)]
    assert {rule["kind"] for scene in scenes for rule in scene.rules} == {*LINK_KINDS, *PROCESS_KINDS}
    assert {scene.protocol for scene in scenes} == protocols
    assert make_scene(3, choices) == make_scene(3, choices)


def test_every_act_goes_with_some_of_200_runs() -> None:
    kinds = [draw_kind(seed) for seed in range(1, 201)]
    assert set(kinds) == {"", *ACTS}
    assert 60 <= sum(map(bool, kinds)) <= 100
    assert make_act(3, "lost state", speakable()) == make_act(3, "lost state", speakable())
    assert {kind for kind, _ in PLOTS} == set(ACTS)


def test_a_short_chaos(tmp_path: Path) -> None:
    figures = summary(perform_all(RUNS, SEEDS, 2, tmp_path))
    assert figures["wrong"] == 0, figures
    assert figures["replies lost"] == 0
    assert figures["completed"] + figures["failed cleanly"] == RUNS
    assert figures["faults"]["kill"] >= 3
    assert figures["frames dropped with their cause"] > 0


def test_other_bytes_in_a_round_are_a_second_draw() -> None:
    def spoken(value: int, board: str = "board", number: int = 1) -> Spoken:
        message = Replies(
            run="run",
            round=number,
            node="node-0",
            chunk=0,
            chunks=1,
            users=np.arange(1),
            columns={"bit": np.array([value])},
            question=bytes([value]) * 32,
        )
        return Spoken(board=Path(board), frame=encode(message), message=message, author=b"key")

    assert Overheard(replies=[spoken(0), spoken(0), spoken(1, number=2), spoken(1, "another")]).second_draws() == 0
    assert Overheard(replies=[spoken(0), spoken(1), spoken(0)]).second_draws() == 1


def test_acts_of_treachery(tmp_path: Path) -> None:
    def act(number: int, kind: str, variant: int) -> Act:
        return Act(
            seed=number,
            kind=kind,
            variant=variant,
            protocol="two-round",
            problem=("gini-diversity", "4"),
            users=60,
            processes=2,
        )

    plots = [act(number, *plot) for number, plot in enumerate(PLOTS)]
    folders = [tmp_path / str(number) for number in range(len(PLOTS))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(2) as pool:
        deeds = list(pool.map(perform_act, plots, folders))
    assert [(each.act.kind, each.wrong) for each in deeds if each.wrong] == []
    assert not any(each.hung or each.second_draws for each in deeds)
    found = {(each.act.kind, each.act.variant): each for each in deeds}
    assert all(found[kind, variant].refused for kind, variant in PLOTS if kind in ACTS[:5])
    assert found["equivocating board", 1].named == found["equivocating board", 1].forged == 1
    assert found["rewriting board", 0].named == found["rewriting board", 0].forged == 2
    assert found["forged record", 0].named == found["forged record", 0].forged == len(FORGERIES)
    assert all(found["dropping board", variant].found == 1 for variant in (0, 24))
