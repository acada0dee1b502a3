"""What the stages of `parley test` say: verdicts with evidence, how far they are, and how much effort they may make.

A stage is a name and a function (target, effort) -> iterator. It yields a `Verdict` for every check it has made and, as
often as it likes, a `Step` that says what it is at. Seconds are measured here, from one verdict to the next, unless the
stage says how long a check took.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parley.emulator.errors import BadInput
from parley.launch.testkit.contract.play import BREAKDOWNS

if TYPE_CHECKING:
    from parley.launch.testkit.target import Target

Outcome = Literal["pass", "fail", "unknown"]
Effort = Literal["quick", "usual", "thorough"]
"""How long a stage may take: all stages together under 30 s, one or two minutes, or as long as it needs."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check's answer. `says` is one sentence: what was measured, or what is wrong and where.

    `unknown` is for what could not be tested, and `says` why. `evidence` holds the numbers behind it, and `repeat` the
    command that shows a failure again, where there is one.
    """

    check: str
    outcome: Outcome
    says: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    repeat: str = ""
    stage: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """As JSON; numbers that are not finite become null."""
        named = {"stage": self.stage, "check": self.check, "verdict": self.outcome, "says": self.says}
        repeat = {"repeat": self.repeat} if self.repeat else {}
        return {**named, **repeat, "seconds": round(self.seconds, 3), "evidence": plain(self.evidence)}


@dataclass(frozen=True)
class Step:
    """What a stage is at, and how much of it is done: a share from 0 to 1."""

    text: str
    share: float = 0.0


def passed(check: str, says: str, **evidence: Any) -> Verdict:
    return Verdict(check=check, outcome="pass", says=says, evidence=evidence)


def failed(check: str, says: str, **evidence: Any) -> Verdict:
    return Verdict(check=check, outcome="fail", says=says, evidence=evidence)


def unknown(check: str, says: str, **evidence: Any) -> Verdict:
    return Verdict(check=check, outcome="unknown", says=says, evidence=evidence)


def plain(value: Any) -> Any:
    """Evidence as JSON takes it."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


Said = Verdict | Step
Judge = Callable[["Target", Effort], Iterator[Said]]


@dataclass(frozen=True)
class Stage:
    """A name, what it looks for, and the function that looks."""

    name: str
    says: str
    judge: Judge
    # Whether it waits more than it computes, so that it may as well begin with the first stage.
    waits: bool = False

    def run(self, target: "Target", effort: Effort) -> Iterator[Said]:
        """What the function says, with the stage's name and the seconds since the verdict before."""
        began = time.perf_counter()
        for said in self._judged(target, effort):
            if isinstance(said, Verdict):
                now = time.perf_counter()
                # Runs side by side have their own times.
                said, began = replace(said, stage=self.name, seconds=said.seconds or now - began), now
            yield said

    def _judged(self, target: "Target", effort: Effort) -> Iterator[Said]:
        """Where the protocol's own code breaks down, that is the verdict."""
        try:
            yield from self.judge(target, effort)
        except BREAKDOWNS as error:
            if not target.raised(error):
                raise
            yield failed("it breaks down", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


@dataclass(frozen=True, kw_only=True)
class Report:
    """All verdicts about one protocol."""

    target: str
    effort: Effort
    version: str
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def failures(self) -> tuple[Verdict, ...]:
        return tuple(each for each in self.verdicts if each.outcome == "fail")

    @property
    def ok(self) -> bool:
        """Whether nothing failed and something was tested."""
        return not self.failures and any(each.outcome == "pass" for each in self.verdicts)

    def record(self) -> dict[str, Any]:
        """As `--json` prints it."""
        counts = {name: sum(each.outcome == name for each in self.verdicts) for name in ("pass", "fail", "unknown")}
        return {
            "target": self.target,
            "ok": self.ok,
            "effort": self.effort,
            "seconds": round(self.seconds, 3),
            "version": self.version,
            "counts": counts,
            "verdicts": [each.record() for each in self.verdicts],
        }


def need(package: str) -> None:
    """Refuse with one sentence where a package that only the test kit needs is missing."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise BadInput(f"this needs {package}, which is not installed: pip install 'parley-ldp[test-kit]'")
