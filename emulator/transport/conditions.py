"""The network and the faults a run is put under: a TOML file of rules, seeded, each with a selector and a window.

A rule says what happens (`kind`), to whom (`nodes`, a pattern), in which `direction` (up: to the board; down: from
it), to which messages (`messages`, `rounds`), how often (`probability`) and when (`after`, `until`, in seconds
since the node started). Rules of links are applied above the socket by `faults.py`; rules of processes
(pause, kill, late) are carried out by whoever started them. Power and disks fail only in virtual runs, and only there
can a rule name the `step` of a process at which it strikes.
"""

import difflib
import fnmatch
import hashlib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.wire.messages import KINDS

Direction = Literal["up", "down", "both"]
LINK_KINDS = ("delay", "loss", "duplicate", "reorder", "corrupt", "bandwidth", "hold", "partition", "straggler")
PROCESS_KINDS = ("pause", "kill", "late")
# Of virtual processes.
POWER = "power"
DISK_KINDS = ("disk-full", "disk-error")
DISTRIBUTIONS = ("constant", "uniform", "lognormal")
FOREVER = math.inf


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One rule. Which numbers matter depends on the kind; docs/reliability.md has the table."""

    kind: str
    nodes: str = "*"
    direction: Direction = "both"
    messages: tuple[str, ...] = ()
    rounds: tuple[int, ...] = ()
    nth: tuple[int, ...] = ()
    step: int = 0
    probability: float = 1.0
    after: float = 0.0
    until: float = FOREVER
    distribution: str = "constant"
    seconds: float = 0.0
    spread: float = 0.0
    burst: int = 1
    bytes_per_second: float = FOREVER
    restart: bool = True

    def __post_init__(self) -> None:
        _known("kind", self.kind, (*LINK_KINDS, *PROCESS_KINDS, POWER, *DISK_KINDS))
        _known("direction", self.direction, ("up", "down", "both"))
        _known("distribution", self.distribution, DISTRIBUTIONS)
        for kind in self.messages:
            _known("message", kind, KINDS)
        if not 0 <= self.probability <= 1:
            raise BadInput(f"conditions: probability {self.probability} of {self.kind} is not between 0 and 1")
        if not (0 <= self.after <= self.until and self.seconds >= 0 and self.spread >= 0):
            raise BadInput(f"conditions: {self.kind} has a negative time, or an `until` before its `after`")
        if self.burst < 1 or not self.bytes_per_second > 0:
            raise BadInput(f"conditions: {self.kind} needs a burst of at least 1 and a bandwidth above 0")
        self._check_places()

    def _check_places(self) -> None:
        """Single messages and steps, for the kinds that can strike at one."""
        if any(type(each) is not int or each < 1 for each in self.nth) or self.step < 0:
            raise BadInput(f"conditions: {self.kind} counts messages in `nth` and steps in `step` from 1 on")
        if (self.nth and self.kind in (*PROCESS_KINDS, POWER)) or (
            self.step and self.kind not in ("pause", "kill", POWER)
        ):
            raise BadInput(f"conditions: {self.kind} has no `{'nth' if self.nth else 'step'}`; leave it out")

    @property
    def is_virtual(self) -> bool:
        """Whether it can only happen in a virtual run."""
        return self.kind in (POWER, *DISK_KINDS) or self.step > 0

    def concerns(self, node: str, direction: str, message: str, number: int, now: float) -> bool:
        """Whether the rule looks at this message at all."""
        return (
            fnmatch.fnmatchcase(node, self.nodes)
            and self.direction in ("both", direction)
            and (not self.messages or message in self.messages)
            and (not self.rounds or number in self.rounds)
            and self.after <= now < self.until
        )

    def draw_seconds(self, generator: np.random.Generator) -> float:
        """A time from the rule's distribution: constant, uniform around `seconds`, or lognormal with that median."""
        if self.distribution == "uniform":
            return max(0.0, self.seconds + self.spread * (2 * generator.random() - 1))
        if self.distribution == "lognormal":
            return float(self.seconds * math.exp(self.spread * generator.standard_normal()))
        return self.seconds


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """A seeded list of rules."""

    name: str = "quiet"
    seed: int = 0
    faults: tuple[Fault, ...] = ()

    @property
    def links(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.kind in LINK_KINDS)

    @property
    def processes(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.kind in (*PROCESS_KINDS, POWER))

    @property
    def disks(self) -> tuple[Fault, ...]:
        return tuple(fault for fault in self.faults if fault.kind in DISK_KINDS)

    def generator(self, *names: str) -> np.random.Generator:
        """Chance for one link or process: the same for the same seed and names."""
        material = "\0".join((str(self.seed), *names)).encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(material).digest()[:8], "little"))


def read_conditions(path: Path) -> Conditions:
    """The conditions a file describes, or BadInput that names what is wrong in it."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"the conditions {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"the conditions {path} are not TOML: {error}") from error
    return conditions_from(content)


def conditions_from(content: Mapping[str, Any]) -> Conditions:
    """Conditions from plain values: name, seed, and a list of fault tables."""
    for key in content:
        _known("key", key, ("name", "seed", "fault"))
    name, seed, rules = content.get("name", "unnamed"), content.get("seed", 0), content.get("fault", [])
    if not isinstance(name, str) or type(seed) is not int or not isinstance(rules, list):
        raise BadInput("conditions: name must be text, seed a whole number, and faults [[fault]] tables")
    return Conditions(name=name, seed=seed, faults=tuple(_fault(rule) for rule in rules))


def _fault(rule: Any) -> Fault:
    if not isinstance(rule, Mapping) or "kind" not in rule:
        raise BadInput("conditions: every [[fault]] needs a kind")
    types = {each.name: type(each.default) for each in fields(Fault)} | {"kind": str}
    values: dict[str, Any] = {}
    for key, value in rule.items():
        _known("setting", key, tuple(types))
        values[key] = _convert(key, value, types[key])
    return Fault(**values)


def _convert(key: str, value: Any, kind: type) -> Any:
    if kind is tuple:
        return tuple(value) if isinstance(value, list) else (value,)
    if kind is float and type(value) in (int, float) and not math.isnan(value):
        return float(value)
    if type(value) is not kind:
        raise BadInput(f"conditions: {key} should be {kind.__name__}, got {value!r}")
    return value


def _known(what: str, value: Any, names: tuple[str, ...]) -> None:
    if value not in names:
        near = difflib.get_close_matches(str(value), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names)}"
        raise BadInput(f"conditions: there is no {what} {value!r}; {hint}")
