"""A plan as an object: every protocol with its predicted cost, and what limits them all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Trust
from parley.emulator.randomizer import Floats
from parley.launch.results import displays
from parley.protocols.planning.plan import AUTO, VERBATIM, Bounds, Option, bounds, checked_histogram, rank_protocols
from parley.protocols.planning.plan import pick as pick_option
from parley.protocols.workloads.workload import Levels, Workload

SHOWN = ("name", "rounds", "predicted_rmse", "bytes_up", "bytes_down")
HEADINGS = ("protocol", "rounds", "RMSE", "worst RMSE", "B up", "B down")
LEAST_USERS = 2


@dataclass(frozen=True, kw_only=True)
class Plan(Sequence[Option]):
    """Protocols for one problem, best first, and what no choice of protocol changes."""

    question: Workload | Levels
    users: int
    epsilon: float
    limits: Bounds | None
    options: tuple[Option, ...]

    @overload
    def __getitem__(self, place: int) -> Option: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Option]: ...
    def __getitem__(self, place: int | slice) -> Option | Sequence[Option]:
        return self.options[place]

    def __len__(self) -> int:
        return len(self.options)

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)

    @property
    def best(self) -> Option:
        """What `auto` takes: of nearly equal protocols the one with fewer rounds and bytes."""
        asked = [option for option in self.options if option.name not in VERBATIM]
        return pick_option(asked) if asked and not isinstance(self.question, Levels) else self.options[0]

    @property
    def title(self) -> str:
        return f"{self.question.name}, k = {self.question.size}, {self.users} users, epsilon {self.epsilon:g}"

    def record(self) -> dict[str, Any]:
        """Plain values, stable names: what `parley plan --json` prints."""
        limits = self.limits
        return {
            "statistic": None if isinstance(self.question, Levels) else self.question.name,
            "k": self.question.size,
            "users": self.users,
            "epsilon": self.epsilon,
            "gamma_2": None if limits is None else {"lower": limits.gamma_lower, "upper": limits.gamma_upper},
            "floor": None if limits is None else limits.floor,
            "lower_bound": None if limits is None else limits.lower_bound,
            "protocols": [{name: getattr(option, name) for name in SHOWN} for option in self.options],
        }

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                *(each.name, str(each.rounds), f"{each.predicted_rmse:.3g}", f"{each.worst_rmse:.3g}"),
                *(f"{each.bytes_up:.1f}", f"{each.bytes_down:.0f}"),
            )
            for each in self.options
        ]

    def __str__(self) -> str:
        rows = [HEADINGS, *self._cells()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS))]
        lines = [row[0].ljust(widths[0]) for row in rows]
        for place, width in enumerate(widths[1:], 1):
            lines = [f"{line}  {row[place]:>{width}}" for line, row in zip(lines, rows, strict=True)]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        shown = displays.table(HEADINGS, self._cells(), self.title)
        return shown + displays.bars({each.name: each.predicted_rmse for each in self.options}, "predicted RMSE")


def make_plan(
    question: Workload | Levels,
    *,
    epsilon: float,
    users: int,
    protocol: str = "all",
    like: Floats | None = None,
    trust: Trust = "nobody",
    delta: float | None = None,
) -> Plan:
    """Predict every protocol's cost; no private value plays a part in it."""
    if users < LEAST_USERS:
        raise BadInput(f"--users {users} cannot be used; give at least {LEAST_USERS}")
    guess = None if like is None else checked_histogram(question, like)
    names = None if protocol in (AUTO, "all") else protocol.split(",")
    options = rank_protocols(question, epsilon, users, guess, names, trust, delta)
    limits = bounds(question, epsilon, users, guess)
    return Plan(question=question, users=users, epsilon=epsilon, limits=limits, options=tuple(options))


def read_numbers(path: Path) -> Floats:
    """The numbers of a .npy or .csv file, in order."""
    try:
        if path.suffix.lower() == ".npy":
            return np.asarray(np.load(path, allow_pickle=False), dtype=np.float64).reshape(-1)
        text = path.read_text(encoding="utf-8-sig").replace("\n", ",")
        return np.array([float(cell) for cell in text.split(",") if cell.strip()])
    except OSError as problem:
        raise BadInput(f"{path}: cannot be read: {problem.strerror or problem}") from problem
    except (ValueError, EOFError) as problem:
        raise BadInput(f"{path}: should hold numbers with commas between them: {problem}") from problem
