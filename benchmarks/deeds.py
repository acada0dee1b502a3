"""One act of treachery and what became of it: the run it happens in, and what is judged whatever was done."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.stage import ROOT, Lie, Overheard, Stage
from parley.emulator.audit.report import Report, audit
from parley.emulator.coins import key_from_seed
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.wire.messages import Replies
from parley.launch.cluster.layout import Layout
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload

EPSILON = 2.0


@dataclass(frozen=True, kw_only=True)
class Act:
    """One run with one act of treachery. `variant` is a number that each kind reads in its own way."""

    seed: int
    kind: str
    variant: int
    protocol: str
    problem: tuple[str, str]
    users: int
    processes: int

    @property
    def victim(self) -> str:
        """Whom it happens to. Who is to sit alone before another board hosts the first users."""
        alone = self.kind in ("another setup", "copied state")
        return "node-0" if alone else f"node-{self.variant % self.processes}"


@dataclass
class Deed:
    """What became of an act; `wrong` says what must not be."""

    act: Act
    code: int = -1
    seconds: float = 0.0
    replies: int = 0
    wire: int = 0
    second_draws: int = 0
    hung: bool = False
    forged: int = 0
    named: int = 0
    dropped: int = 0
    found: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    def expect(self, truth: object, otherwise: str) -> None:
        if not truth:
            self.wrong.append(otherwise)


def layout_of(
    act: Act,
    conditions: Path | None = None,
    *,
    quorum: float = 1.0,
    deadline: float = 100.0,
) -> Layout:
    workload = make_workload(*act.problem, None)
    generator = np.random.default_rng([act.seed, 9])
    return Layout(
        protocol=design(act.protocol, workload, epsilon=EPSILON, users=act.users),
        inputs=generator.integers(workload.size, size=act.users, dtype=np.int64),
        key=key_from_seed(act.seed),
        processes=act.processes,
        conditions=conditions,
        quorum=quorum,
        deadline=deadline,
        repeatable=True,
    )


def enter(deed: Deed, folder: Path, layout: Layout, lie: Lie | None = None) -> Stage:
    return Stage(layout, folder / "run", f"act-{deed.act.seed}", lie=lie)


def judge(
    deed: Deed, stage: Stage, overheard: Overheard, *, exact: bool, may_fail: bool = False, deceived: bool = False
) -> None:
    """The end of a run: how the board left, what is on record, what was on the wire."""
    deed.code = stage.wait(BOARD_NAME)
    allowed = (0, 3) if may_fail else (0,)
    deed.expect(deed.code in allowed, f"the board left with exit code {deed.code}")
    stage.wait(ANALYST_NAME)
    judge_wire(deed, stage, overheard)
    on_record = [message for message in stage.on_record() if isinstance(message, Replies)]
    deed.replies += sum(len(message.users) for message in on_record)
    if exact:
        deed.expect(stage.estimates() == stage.estimates_in_memory(), "another estimate than in memory")
    if deed.code == 0 and not deceived:
        report = audit_of(stage, stage.folder.transcript)
        deed.expect(report.ok, f"the audit fails: {report.record()}")


def judge_wire(deed: Deed, stage: Stage, overheard: Overheard) -> None:
    """Everything nodes ever sent: one draw a question, with the coins of that question."""
    deed.wire += len(overheard.replies)
    again, other = overheard.second_draws(), overheard.wrong_draws(stage)
    deed.second_draws += again
    deed.expect(not again, f"{again} second draws")
    deed.expect(not other, f"{other} replies with other coins or inputs")
    shared = overheard.shared_coins(stage)
    deed.expect(not shared, f"{shared} times the same coins for two questions")


def audit_of(stage: Stage, transcript: Path) -> Report:
    witness = Witness.load(stage.folder.witness)
    return audit(transcript, build, witness=witness, keys=stage.keys)


def against(stage: Stage, evidence: Path) -> tuple[int, str]:
    """What `parley audit --against` says."""
    command = [sys.executable, "-m", "parley.launch.cli", "audit", str(stage.folder.path), "--against", str(evidence)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def has_answered(stage: Stage, node: str) -> bool:
    return bool(stage.heard(Replies, node))


def until_answered(stage: Stage, node: str) -> None:
    """Until a node has sent its first reply, or the run is over without it."""
    stage.until(lambda: has_answered(stage, node) or stage.processes[BOARD_NAME].poll() is not None)


def everybody_leaves(deed: Deed, stage: Stage, *names: str, code: int = 0) -> None:
    """These nodes, or all, end with this exit code; a bad link may keep the last receipt from a node."""
    for name in names or stage.layout.nodes:
        found, said = stage.wait(name), stage.said(name)
        unlucky = stage.layout.conditions is not None and found == 3 and "the board left without showing" in said
        deed.expect(found == code or unlucky, f"{name} left with exit code {found} instead of {code}: {said[-300:]}")
