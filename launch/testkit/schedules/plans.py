"""What is tried and how: a world, schedules for it, and what a search keeps of them."""

import shlex
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from parley.emulator.transport.conditions import DISK_KINDS, POWER, Conditions, Fault
from parley.launch.api import Problem, problem
from parley.launch.cluster.virtual_run import Parts
from parley.launch.testkit.invariants import Violation


@dataclass(frozen=True, kw_only=True)
class World:
    """What is tried: a protocol and synthetic users, named as on the command line."""

    protocol: str = "three-round"
    statistic: str | None = "kendall"
    levels: str | None = "2x2"
    protocol_file: Path | None = None
    epsilon: float = 1.0
    delta: float | None = None
    fewest: int = 2
    most: int = 6
    seed: int = 1
    parts: Parts = field(default_factory=Parts)

    def problem(self, users: int) -> Problem:
        file = self.protocol_file
        return problem(None, self.statistic, levels=self.levels, users=users, seed=self.seed, protocol_file=file)

    def flags(self) -> list[str]:
        """The flags of `parley run` that say the same."""
        named = {
            "--protocol-file": self.protocol_file,
            "--protocol": self.protocol,
            "--statistic": self.statistic,
            "--levels": self.levels,
            "--epsilon": f"{self.epsilon:g}",
            "--delta": None if self.delta is None else f"{self.delta:g}",
            "--seed": self.seed,
        }
        return [str(word) for pair in named.items() if pair[1] is not None for word in pair]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One schedule: who takes part, what strikes, and a seed for how long every message takes."""

    users: int
    nodes: int
    relays: int = 0
    quorum: float = 1.0
    seed: int = 0
    faults: tuple[Fault, ...] = ()

    @property
    def size(self) -> tuple[int, int, int, float]:
        """What must be the same for two schedules to be of the same run."""
        return self.users, self.nodes, self.relays, self.quorum

    @property
    def conditions(self) -> Conditions:
        return Conditions(name="found", seed=self.seed, faults=self.faults)

    @property
    def may_fail(self) -> bool:
        """Whether somebody may be lost for good."""
        return any(not each.restart or each.kind in (POWER, *DISK_KINDS) for each in self.faults)

    def as_toml(self) -> str:
        """The conditions file that says the same."""
        lines, usual = [f'name = "{self.conditions.name}"', f"seed = {self.seed}"], Fault(kind="delay")
        for fault in self.faults:
            lines += ["", "[[fault]]", f'kind = "{fault.kind}"']
            for each in fields(fault)[1:]:
                value = getattr(fault, each.name)
                if value != getattr(usual, each.name):
                    lines.append(f"{each.name} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    def command(self, world: World, conditions: Path) -> str:
        """What to type in order to see it again, as a run folder with its report."""
        sizes = ["--users", self.users, "--processes", self.nodes]
        unusual = {"--relays": self.relays or None, "--quorum": self.quorum if self.quorum < 1 else None}
        more = [word for pair in unusual.items() if pair[1] is not None for word in pair]
        words = ["parley", "run", "--in-memory", *world.flags(), *sizes, *more, "--conditions", conditions]
        return shlex.join(map(str, words))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A schedule that breaks rules."""

    number: int
    plan: Plan
    violations: tuple[Violation, ...]

    @property
    def rules(self) -> frozenset[str]:
        return frozenset(each.rule for each in self.violations)

    def save(self, world: World, path: Path) -> str:
        """Write the conditions file; the command that repeats the schedule as a run folder with its report."""
        path.write_text(self.plan.as_toml())
        return self.plan.command(world, path)


@dataclass
class Tally:
    """What a search has tried so far."""

    schedules: int = 0
    completed: int = 0
    failed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    virtual_seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else repr(value)
