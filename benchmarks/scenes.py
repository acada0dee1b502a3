"""Scenes for benchmarks/chaos.py: who runs what under which faults, and what a heckler says, from a seed alone."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.conditions import LINK_KINDS
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Announce, Event, Message, Ready, Result
from parley.protocols.registry import design, lookup, names, needs_shuffler
from parley.protocols.workloads.choice import make_workload

PROBLEMS = (("kendall", "3x3"), ("gini-diversity", "4"), ("gini-mean-difference", "4"), ("auc", "4"))
PROCESS_FAULTS = ("pause", "kill", "late")
Choice = tuple[str, tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One run: what is asked of whom, and what they are put under."""

    seed: int
    protocol: str
    problem: tuple[str, str]
    users: int
    processes: int
    secure: bool
    quorum: float
    rules: tuple[dict[str, Any], ...]

    @property
    def doomed(self) -> bool:
        """Somebody does not come back."""
        return any(rule.get("restart") is False for rule in self.rules)

    def arguments(self, folder: Path) -> list[str]:
        statistic, levels = self.problem
        words = ["--statistic", statistic, "--levels", levels, "--epsilon", "2", "--protocol", self.protocol]
        words += ["--users", str(self.users), "--processes", str(self.processes), "--seed", str(self.seed)]
        words += ["--quorum", str(self.quorum), "--quiet", "--out", str(folder / "run")]
        words += ["--deadline", "20" if self.doomed else "120", "--conditions", str(folder / "conditions.toml")]
        return [*words, "--secure"] if self.secure else words


@cache
def speakable() -> list[Choice]:
    """Every protocol, with every problem it takes."""
    found = []
    for name in names("shuffler"):
        for problem in PROBLEMS:
            with suppress(BadInput):
                design(name, make_workload(*problem, None), epsilon=2.0, users=60)
                found.append((name, problem))
    return found


def make_scene(seed: int, choices: list[Choice]) -> Scene:
    """A scene from its seed alone."""
    generator = np.random.default_rng([seed, 6])
    protocol, problem = choices[int(generator.integers(len(choices)))]
    processes = int(generator.integers(2, 6))
    kinds = generator.choice(LINK_KINDS, size=int(generator.integers(2, 5)), replace=False)
    rules = [link_rule(str(kind), generator) for kind in kinds]
    middle = [SHUFFLER_NAME] if needs_shuffler(lookup(protocol)) else []
    victims = [BOARD_NAME, ANALYST_NAME, *middle, *(f"node-{number}" for number in range(processes))]
    for _ in range(int(generator.integers(1, 4))):
        rules.append(process_rule(victims, generator))
    doomed = bool(generator.random() < 0.1)
    if doomed:
        rules.append({"kind": "kill", "nodes": "node-0", "rounds": [1], "restart": False})
    return Scene(
        seed=seed,
        protocol=protocol,
        problem=problem,
        users=int(generator.integers(60, 300)),
        processes=processes,
        secure=bool(generator.random() < 0.5),
        quorum=0.3 if doomed and generator.random() < 0.5 else 1.0,
        rules=tuple(rules),
    )


def link_rule(kind: str, generator: np.random.Generator) -> dict[str, Any]:
    """A rule of a link, bad enough to be felt and mild enough to get through."""
    rule: dict[str, Any] = {"kind": kind, "direction": str(generator.choice(["up", "down", "both"]))}
    if kind in ("loss", "duplicate", "corrupt", "reorder"):
        rule |= {"probability": round(float(generator.uniform(0.05, 0.25)), 3)}
    if kind == "loss":
        rule |= {"burst": int(generator.integers(1, 3))}
    if kind in ("delay", "straggler"):
        rule |= {"distribution": str(generator.choice(["constant", "uniform", "lognormal"]))}
        rule |= {"seconds": round(float(generator.uniform(0.01, 0.2)), 3), "spread": 0.1}
    if kind == "straggler":
        rule |= {"probability": 0.3, "nodes": "node-*"}
    if kind == "bandwidth":
        rule |= {"bytes_per_second": float(generator.integers(20_000, 200_000))}
    if kind in ("hold", "partition"):
        rule |= {"nodes": f"node-{generator.integers(3)}", "until": round(float(generator.uniform(0.5, 3.0)), 2)}
    return rule


def process_rule(victims: list[str], generator: np.random.Generator) -> dict[str, Any]:
    """A rule of a process: anybody, at some time or in some round."""
    kind = str(generator.choice(PROCESS_FAULTS, p=[0.25, 0.6, 0.15]))
    rule: dict[str, Any] = {"kind": kind, "nodes": str(generator.choice(victims))}
    rule |= {"seconds": round(float(generator.uniform(0.0, 1.0)), 2)}
    if kind != "late" and generator.random() < 0.6:
        return rule | {"rounds": [int(generator.integers(1, 4))]}
    return rule | {"until": 2.0}


def as_toml(scene: Scene, *, processes: bool = True) -> str:
    """The conditions file of a scene; without `processes`, of its links alone."""
    wanted = [rule for rule in scene.rules if processes or rule["kind"] in LINK_KINDS]
    rules = ["".join(f"{key} = {json.dumps(value)}\n" for key, value in rule.items()) for rule in wanted]
    return f'name = "chaos"\nseed = {scene.seed}\n' + "".join(f"\n[[fault]]\n{rule}" for rule in rules)


def heckles(scene: Scene) -> Iterator[bytes]:
    """Frames nobody asked for: noise, messages of other runs, messages with a byte changed."""
    generator = np.random.default_rng([scene.seed, 7])
    words: tuple[Message, ...] = (
        Announce(run="stranger", round=1, broadcast={"mu": np.ones(3)}),
        Result(run="stranger", estimate=0.0, predicted_rmse=1.0, low=0.0, high=1.0, replied=3),
        Abort(run="stranger", outcome="aborted", reason="because"),
        Ready(node="stranger", first=0, users=2**40, pid=1),
        Event(event="heckle", node="no name", round=0, detail=""),
    )
    while True:
        frame = encode(words[int(generator.integers(len(words)))])
        if generator.random() < 0.5:
            spoiled = bytearray(frame)
            spoiled[int(generator.integers(len(frame)))] ^= int(generator.integers(1, 256))
            frame = bytes(spoiled)
        yield frame if generator.random() < 0.7 else generator.bytes(int(generator.integers(0, 2000)))
