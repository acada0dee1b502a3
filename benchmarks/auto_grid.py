"""`auto` against every other protocol, and everybody's intervals, on problems drawn at random.

    python -m benchmarks.auto_grid --seed 1 --save benchmarks/auto_grid.json [--problems 100] [--seconds 1500]
    python -m benchmarks.auto_grid --show benchmarks/auto_grid.json [--again [--rerun NAME,NAME]] [--write]

A problem is a statistic, its levels, epsilon from .1 to 10, 300 to 1,000,000 users and a shape of data; problem i of a
seed is always the same. Every protocol that can be used runs PILOT trials of the fast simulation. More trials go where
they decide something: to rivals of `auto` whose RMSE is not yet told apart from 1.05 times theirs, and to intervals
whose coverage is not yet told apart from what it should be. A problem is saved when it is done, and a file that holds
problems already is continued. A later version chooses again among the trials of the file; `--rerun` runs those of
protocols that have changed anew.

"Beyond three standard errors": a ratio misses if it exceeds 1.05 by more than three times its own standard error, a
coverage if it lies outside 92 to 98% by more than that. The upper end counts where nearly all intervals lie inside the
statistic's range and the limit is not nearly 0: elsewhere an interval is cut, or the error is of the second order.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from benchmarks.accuracy import write
from benchmarks.grid import random_signs, table
from parley.emulator.arithmetic import one_thread
from parley.emulator.randomizer import Floats, Integers
from parley.protocols.planning import fast_simulation, plan
from parley.protocols.planning.limit import COARSE, limit
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import Workload

Generator = np.random.Generator
PILOT = 40
# A rival is told apart from `auto` at this ratio; nobody runs longer than MOST trials or LONGEST seconds.
ALLOWED, WORST = 1.05, 1.15
MOST, LONGEST = 640, 3.0
LEAST_COVERAGE, MOST_COVERAGE = 0.92, 0.98
SURE = 3.0
# The shares of intervals that lie inside the range before "at most 98%" is asked of them.
INSIDE = 0.9
# Below this part of the limit at the public guesses it is nearly 0: shares that are even but for chance.
NEARLY_NONE = 0.1


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem, and how many users hold each input."""

    title: str
    shape: str
    workload: Workload
    epsilon: float
    users: int
    counts: Integers = field(repr=False)


def problem(seed: int, number: int) -> Problem:
    """Problem `number` of a seed."""
    generator = np.random.default_rng([seed, number])
    title, workload, shape, weights = STATISTICS[int(generator.integers(len(STATISTICS)))](generator)
    epsilon = float(f"{10 ** generator.uniform(-1, 1):.2g}")
    users = int(float(f"{10 ** generator.uniform(math.log10(300), 6):.2g}"))
    counts = generator.multinomial(users, weights / weights.sum())
    if isinstance(workload, AreaUnderCurve):
        # An area needs somebody of either label.
        for label in (0, 1):
            if not counts[label::2].sum():
                counts[np.argmax(counts)] -= 1
                counts[label + 2 * int(generator.integers(workload.size // 2))] += 1
    return Problem(title=title, shape=shape, workload=workload, epsilon=epsilon, users=users, counts=counts)


def _levels(generator: Generator, low: int, high: int) -> int:
    """Few levels are as likely as many."""
    return round(math.exp(generator.uniform(math.log(low), math.log(high))))


def _line(generator: Generator, levels: int) -> tuple[str, Floats]:
    """How users spread over levels in a row."""
    places = (np.arange(levels) + 0.5) / levels
    name = str(generator.choice(["beta", "skewed", "ties", "two points", "point mass", "even"]))
    bump = places ** generator.uniform(0.5, 4) * (1 - places) ** generator.uniform(0.5, 4)
    if name == "skewed":
        return name, np.exp(-places * generator.uniform(6, 16))
    if name == "ties":
        kept = np.zeros(levels)
        kept[:: max(1, levels // 4)] = 1
        return name, bump * kept + 1e-12
    if name == "two points":
        chosen = np.zeros(levels)
        chosen[generator.choice(levels, 2, replace=False)] = generator.uniform(0.2, 1, 2)
        return name, chosen
    if name == "point mass":
        mass = bump / bump.sum()
        mass[int(generator.integers(levels))] += generator.uniform(0.5, 6)
        return name, mass
    return name, np.ones(levels) if name == "even" else bump


def _kendall(generator: Generator) -> tuple[str, Workload, str, Floats]:
    first, second = (_levels(generator, 2, 20) for _ in range(2))
    correlation = generator.uniform(-0.95, 0.95)
    name = str(generator.choice(["normal", "skewed", "ties", "two points", "point mass"]))
    stretch = np.exp if name == "skewed" else lambda value: value
    pair = generator.standard_normal((2, 20_000))
    pair[1] = correlation * pair[0] + math.sqrt(1 - correlation**2) * pair[1]
    ranks = [_binned(stretch(each), levels) for each, levels in zip(pair, (first, second), strict=True)]
    if name == "ties":
        ranks = [rank - rank % max(1, levels // 3) for rank, levels in zip(ranks, (first, second), strict=True)]
    shares = np.bincount(ranks[0] * second + ranks[1], minlength=first * second) / pair.shape[1]
    if name == "two points":
        shares = np.zeros(first * second)
        shares[generator.choice(first * second, 2, replace=False)] = generator.uniform(0.2, 1, 2)
    elif name == "point mass":
        shares[int(generator.integers(first * second))] += generator.uniform(0.5, 6)
    return f"Kendall {first}x{second}", Kendall(levels=(first, second)), name, shares


def _binned(values: Floats, levels: int) -> Integers:
    low, high = np.quantile(values, [0.005, 0.995])
    return np.clip(((values - low) / (high - low) * levels).astype(np.int64), 0, levels - 1)


def _auc(generator: Generator) -> tuple[str, Workload, str, Floats]:
    levels = _levels(generator, 2, 100)
    name, negative = _line(generator, levels)
    rare = bool(generator.random() < 0.3)
    share = generator.uniform(0.01, 0.08) if rare else generator.uniform(0.15, 0.5)
    slope = generator.uniform(-1, 4)
    positive = negative * np.exp(slope * np.arange(levels) / levels)
    weights = np.stack([(1 - share) * negative / negative.sum(), share * positive / positive.sum()], axis=1)
    shape = f"{name}, {share:.0%} positive" if rare else name
    return f"AUC {levels}", AreaUnderCurve(levels=levels), shape, weights.reshape(-1)


def _difference(generator: Generator) -> tuple[str, Workload, str, Floats]:
    levels = _levels(generator, 2, 256)
    return f"GMD {levels}", GiniMeanDifference(levels=levels), *_line(generator, levels)


def _diversity(generator: Generator) -> tuple[str, Workload, str, Floats]:
    levels = _levels(generator, 2, 256)
    return f"diversity {levels}", GiniDiversity(levels=levels), *_line(generator, levels)


def _signs(generator: Generator) -> tuple[str, Workload, str, Floats]:
    levels = _levels(generator, 4, 100)
    kernel = random_signs(levels, seed=int(generator.integers(1 << 30)))
    return f"random signs {levels}", kernel, *_line(generator, levels)


STATISTICS: Sequence[Callable[[Generator], tuple[str, Workload, str, Floats]]] = (
    _kendall,
    _kendall,
    _auc,
    _auc,
    _difference,
    _difference,
    _diversity,
    _signs,
)


class Runner:
    """The trials of one protocol, as many as were asked for so far."""

    def __init__(self, option: plan.Option, asked: Problem, truth: float, seed: int) -> None:
        self.option, self.asked, self.truth, self.seed = option, asked, truth, seed
        self.errors: list[float] = []
        self.held, self.inside, self.seconds = 0, 0, 0.0

    def run(self, trials: int) -> None:
        """Go on up to this number of trials, or until it takes too long."""
        low, high = self.asked.workload.bounds
        while len(self.errors) < trials and (self.seconds < LONGEST or len(self.errors) < PILOT // 2):
            numbers = range(len(self.errors), min(trials, len(self.errors) + 10))
            started = time.process_time()
            generators = [np.random.default_rng([self.seed, 91, number]) for number in numbers]
            for found in fast_simulation.play_all(self.option.protocol, self.asked.counts, generators):
                self.errors.append(float(np.clip(found.value, low, high)) - self.truth)
                left, right = found.interval95
                # A truth at the end of the range, as rounding leaves it, is held by an interval that ends there.
                slack = 1e-9 * (high - low)
                self.held += left - slack <= self.truth <= right + slack
                self.inside += low < left and right < high
            self.seconds += time.process_time() - started

    @property
    def trials(self) -> int:
        return len(self.errors)

    @property
    def result(self) -> dict[str, Any]:
        squares = np.square(self.errors)
        mean = float(squares.mean())
        return {
            "protocol": self.option.name,
            "rmse": math.sqrt(mean),
            "doubt": float(squares.std() / mean / 2 / math.sqrt(self.trials)) if mean else 0.0,
            "bias": float(np.mean(self.errors)),
            "held": self.held,
            "inside": self.inside / self.trials,
            "predicted": self.option.predicted_rmse,
            "trials": self.trials,
        }


def measured(asked: Problem, seed: int) -> dict[str, Any]:
    """All protocols on one problem."""
    workload, histogram = asked.workload, asked.counts / asked.users
    truth = workload.exact(np.repeat(np.arange(workload.size), asked.counts))
    limits = {"limit": limit(workload, histogram, asked.epsilon, asked.users), "usual": usual_limit(asked)}
    options = plan.rank_protocols(workload, asked.epsilon, asked.users)
    runners = [Runner(option, asked, truth, seed) for option in options]
    own = runners[options.index(plan.pick(options))]
    for runner in runners:
        runner.run(PILOT)
    trials = 2 * PILOT
    while trials <= MOST:
        rivals = [each for each in runners if each is not own and _is_open(ratio(own.result, each.result), ALLOWED)]
        going = {own, *rivals} if rivals else set()
        going |= {each for each in runners if _coverage_is_open(each.result, limits)}
        if not going:
            break
        for runner in going:
            runner.run(trials)
        trials *= 2
    return {
        "problem": asked.title,
        "shape": asked.shape,
        "epsilon": asked.epsilon,
        "users": asked.users,
        "truth": truth,
        **limits,
        "auto": own.option.name,
        "protocols": [runner.result for runner in runners],
    }


def chosen_again(found: dict[str, Any], asked: Problem, seed: int, changed: Sequence[str]) -> dict[str, Any]:
    """What this version predicts and chooses, for trials that an earlier one ran; only protocols `changed` run anew."""
    options = {each.name: each for each in plan.rank_protocols(asked.workload, asked.epsilon, asked.users)}
    kept = {row["protocol"]: row for row in found["protocols"]}
    own, runners = plan.pick(list(options.values())).name, dict[str, Runner]()

    def run(name: str, trials: int) -> bool:
        """Go on up to this number of trials, from the first one; False if that takes too long."""
        if name not in runners:
            runners[name] = Runner(options[name], asked, found["truth"], seed)
        before = runners[name].trials
        runners[name].run(trials)
        kept[name] = runners[name].result
        return runners[name].trials > before

    for name in set(changed) & set(kept):
        run(name, kept[name]["trials"])
    going = True
    while going:
        rivals = [name for name in kept if name != own and _is_open(ratio(kept[own], kept[name]), ALLOWED)]
        again = {own, *rivals} if rivals and runners else set[str]()
        again |= {name for name in runners if _coverage_is_open(kept[name], found)}
        went = [run(name, 2 * kept[name]["trials"]) for name in again if 2 * kept[name]["trials"] <= MOST]
        going = any(went)
    rows = [{**each, "predicted": options[name].predicted_rmse} for name, each in kept.items()]
    return {**found, "usual": usual_limit(asked), "auto": own, "protocols": rows}


def usual_limit(asked: Problem) -> float:
    """The limit where the statistic has a slope: at the public guess where it is largest."""
    guesses = assumed_histograms(asked.workload).values()
    return max(limit(asked.workload, each, asked.epsilon, asked.users, COARSE) for each in guesses)


def ratio(own: dict[str, Any], rival: dict[str, Any]) -> tuple[float, float]:
    """Of two RMSEs, and its standard error; two that are never wrong are equal."""
    if not rival["rmse"]:
        return (math.inf, 0.0) if own["rmse"] else (1.0, 0.0)
    found = own["rmse"] / rival["rmse"]
    return found, found * math.hypot(own["doubt"], rival["doubt"])


def _is_open(found: tuple[float, float], border: float) -> bool:
    value, doubt = found
    return abs(value - border) < SURE * doubt


def surely_low(row: dict[str, Any]) -> bool:
    """Whether so few intervals hold the truth that the coverage is below 92%, as surely as three standard errors."""
    return bool(binom.cdf(row["held"], row["trials"], LEAST_COVERAGE) < norm.sf(SURE))


def surely_high(row: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether so many hold it that the coverage is above 98%, where that is asked."""
    return _asks_for_width(row, found) and bool(binom.sf(row["held"] - 1, row["trials"], MOST_COVERAGE) < norm.sf(SURE))


def _asks_for_width(row: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether intervals may also be too wide: not where the statistic has hardly a slope, or they are cut."""
    return bool(row["inside"] >= INSIDE and found["limit"] > NEARLY_NONE * found["usual"])


def _coverage_is_open(row: dict[str, Any], found: dict[str, Any]) -> bool:
    coverage = row["held"] / row["trials"]
    low = coverage < LEAST_COVERAGE and not surely_low(row)
    high = coverage > MOST_COVERAGE and _asks_for_width(row, found) and not surely_high(row, found)
    return low or high


def best_other(found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `auto` chose, and the best of the others."""
    own = next(row for row in found["protocols"] if row["protocol"] == found["auto"])
    others = [row for row in found["protocols"] if row is not own]
    return own, min(others, key=lambda row: row["rmse"])


def missed(found: dict[str, Any]) -> bool:
    """Whether another protocol is better than 5% beyond three standard errors."""
    value, doubt = ratio(*best_other(found))
    return value - SURE * doubt > ALLOWED


def reason(found: dict[str, Any]) -> str:
    """Why `auto` did not take the best: its public guesses of the data rank the two otherwise."""
    own, other = best_other(found)
    measured_ratio, guessed = own["rmse"] / other["rmse"], own["predicted"] / other["predicted"]
    if other["protocol"] in plan.VERBATIM:
        return "a form with the paper's own constants, which auto never takes"
    return f"at the public guesses {guessed:.2f} was predicted, on these data it is {measured_ratio:.2f}"


def shown(found: Sequence[dict[str, Any]]) -> str:
    """The page: what `auto` misses, and how often intervals hold the truth."""
    ratios = [ratio(*best_other(each)) for each in found]
    misses = [each for each in found if missed(each)]
    within = sum(value <= ALLOWED for value, _ in ratios)
    lines = [
        f"Over {len(found)} problems `auto` is within 5% of the best other protocol, beyond three standard errors, on "
        f"{len(found) - len(misses)}; its ratio is below 1.05 on {within}, {np.median([v for v, _ in ratios]):.2f} in "
        f"the median and {max(v for v, _ in ratios):.2f} at worst.",
        "",
    ]
    if misses:
        heads = ("problem", "data", "epsilon", "users", "auto", "over best other", "reason")
        lines += [table(heads, [_miss(each) for each in misses]), ""]
    lines += [_coverages(found)]
    return "\n".join(lines)


def _miss(found: dict[str, Any]) -> list[str]:
    value, doubt = ratio(*best_other(found))
    cells = [found["problem"], found["shape"], f"{found['epsilon']:g}", f"{found['users']:,}", found["auto"]]
    return [*cells, f"{value:.2f} ± {doubt:.2f} ({best_other(found)[1]['protocol']})", reason(found)]


def _coverages(found: Sequence[dict[str, Any]]) -> str:
    rows = []
    for name in sorted({row["protocol"] for each in found for row in each["protocols"]}):
        own = [(each, row) for each in found for row in each["protocols"] if row["protocol"] == name]
        trials = sum(row["trials"] for _, row in own)
        held = sum(row["held"] for _, row in own) / trials
        low = [each for each, row in own if surely_low(row)]
        high = [each for each, row in own if surely_high(row, each)]
        least = min(row["held"] / row["trials"] for _, row in own)
        said = "; ".join(
            f"{each['problem']} ({each['shape']}), eps {each['epsilon']:g}, n {each['users']:,}" for each in low + high
        )
        cells = [f"{len(own)}", f"{held:.1%}", f"{least:.1%}", f"{len(low)}", f"{len(high)}", said]
        rows.append([name, *cells])
    heads = ("protocol", "problems", "held the truth", "least", "below 92%", "above 98%", "where")
    return table(heads, rows)


def save(path: Path, seed: int, found: list[dict[str, Any]]) -> None:
    kept = [{**each, "protocols": [_rounded(row) for row in each["protocols"]]} for each in found]
    text = ",\n".join(json.dumps(_rounded(each)) for each in kept)
    path.write_text(f'{{"seed": {seed}, "problems": [\n{text}\n]}}\n')


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: float(f"{value:.5g}") if isinstance(value, float) else value for key, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no problem after so many")
    parser.add_argument("--save", type=Path, help="continue this file")
    parser.add_argument("--show", type=Path, help="run nothing; print what this file holds")
    parser.add_argument("--again", action="store_true", help="let this version choose; keep the trials of the file")
    parser.add_argument("--rerun", default="", help="with --again: protocols, by commas, whose trials are run anew")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/accuracy.md")
    options = parser.parse_args()
    path, found = options.show or options.save, []
    if path and path.exists():
        kept = json.loads(path.read_text())
        if kept["seed"] != options.seed:
            raise SystemExit(
                f"{path} holds problems of seed {kept['seed']}; give --seed {kept['seed']} or another file"
            )
        found = kept["problems"]
    if options.again:
        for number, each in enumerate(found):
            with one_thread():
                found[number] = chosen_again(
                    each, problem(options.seed, number), options.seed, options.rerun.split(",")
                )
            print(number, found[number]["problem"], found[number]["auto"], flush=True)
    started = time.monotonic()
    with one_thread():
        for number in range(len(found), 0 if options.show else options.problems):
            if time.monotonic() - started > options.seconds:
                break
            found.append(measured(problem(options.seed, number), options.seed))
            value, doubt = ratio(*best_other(found[-1]))
            title = f"{found[-1]['problem']} ({found[-1]['shape']}), eps {found[-1]['epsilon']:g}"
            print(
                f"{number:3} {title:50} n {found[-1]['users']:8,} {found[-1]['auto']:16} {value:.2f} ± {doubt:.2f} "
                f"({best_other(found[-1])[1]['protocol']}) coverage "
                + " ".join(f"{row['held'] / row['trials']:.0%}" for row in found[-1]["protocols"]),
                flush=True,
            )
            if options.save:
                save(options.save, options.seed, found)
    if options.again and path:
        save(path, options.seed, found)
    print(shown(found))
    if options.write:
        write("auto grid", shown(found))


if __name__ == "__main__":
    main()
