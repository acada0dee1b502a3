r"""How near the tuned protocols come to the limit, and how they compare with an earlier version.

    python -m benchmarks.near_limit --statistic kendall16 --epsilon 1 --users 10000 --trials 200
    python -m benchmarks.near_limit --statistic all --epsilon 1,2,4 --users 1e4,1e5,1e6 --save figures.json
    python -m benchmarks.near_limit ... --against benchmarks/near_limit_before.json
    python -m benchmarks.near_limit --show benchmarks/near_limit{,_one_round,_others}.json \
        --against benchmarks/near_limit_before{,_one_round,_others}.json --write

Figures of an earlier version are made by running this file in a worktree of it, with --protocol auto (those of
`near_limit_before.json` in one of 6766dc4); it uses nothing that version lacks. Data: Kendall of a normal pair with
correlation .6 on equal-width bins, AUC with 35% positives, GMD of Beta(2, 4), and harder shapes. The RMSE of T trials
is known to 1/sqrt(2T).
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall

Generator = np.random.Generator
Inputs = np.ndarray[Any, np.dtype[np.int64]]
DATA_SEED = 1000


def _bins(values: Any, low: float, high: float, levels: int) -> Inputs:
    return np.clip(((values - low) / (high - low) * levels).astype(np.int64), 0, levels - 1)


def pair(levels: int, users: int, generator: Generator) -> Inputs:
    first, noise = generator.standard_normal((2, users))
    second = 0.6 * first + 0.8 * noise
    return _bins(first, -2.5, 2.5, levels) * levels + _bins(second, -2.5, 2.5, levels)


def skewed_pair(levels: int, users: int, generator: Generator) -> Inputs:
    first, noise = generator.standard_normal((2, users))
    second = 0.6 * first + 0.8 * noise
    return _bins(np.exp(first), 0, 12, levels) * levels + _bins(np.exp(second), 0, 12, levels)


def two_points(levels: int, users: int, generator: Generator) -> Inputs:
    corner = levels // 4 * levels + levels // 4
    return np.where(generator.random(users) < 0.5, corner, levels * levels - 1 - corner)


def mass_pair(levels: int, users: int, generator: Generator) -> Inputs:
    """Half of the users agree, the others are correlated."""
    return np.where(generator.random(users) < 0.5, 3 * levels + 5, pair(levels, users, generator))


def scores(share: float) -> Callable[[int, int, Generator], Inputs]:
    def drawn(levels: int, users: int, generator: Generator) -> Inputs:
        label = (generator.random(users) < share).astype(np.int64)
        label[:2] = 0, 1
        return _bins(generator.standard_normal(users) + label, -2.5, 3.5, levels) * 2 + label

    return drawn


def tied_scores(levels: int, users: int, generator: Generator) -> Inputs:
    drawn = scores(0.35)(levels, users, generator)
    coarse = levels // 4
    return drawn // 2 // coarse * coarse * 2 + drawn % 2


def beta(a: float, b: float) -> Callable[[int, int, Generator], Inputs]:
    return lambda levels, users, generator: _bins(generator.beta(a, b, users), 0, 1, levels)


def two_levels(levels: int, users: int, generator: Generator) -> Inputs:
    return np.where(generator.random(users) < 0.5, levels // 4, 3 * levels // 4)


PROBLEMS: dict[str, tuple[Any, Callable[[int, int, Generator], Inputs], int]] = {
    "kendall16": (Kendall(levels=(16, 16)), pair, 16),
    "kendall8": (Kendall(levels=(8, 8)), pair, 8),
    "auc32": (AreaUnderCurve(levels=32), scores(0.35), 32),
    "gmd64": (GiniMeanDifference(levels=64), beta(2, 4), 64),
    "diversity64": (GiniDiversity(levels=64), beta(2, 4), 64),
    "kendall16-skewed": (Kendall(levels=(16, 16)), skewed_pair, 16),
    "kendall16-two-points": (Kendall(levels=(16, 16)), two_points, 16),
    "kendall16-mass": (Kendall(levels=(16, 16)), mass_pair, 16),
    "auc32-ties": (AreaUnderCurve(levels=32), tied_scores, 32),
    "auc32-rare6": (AreaUnderCurve(levels=32), scores(0.06), 32),
    "auc32-rare2": (AreaUnderCurve(levels=32), scores(0.02), 32),
    "gmd64-skewed": (GiniMeanDifference(levels=64), beta(1, 12), 64),
    "gmd64-two-points": (GiniMeanDifference(levels=64), two_levels, 64),
}
MAIN = ("kendall16", "kendall8", "auc32", "gmd64")


def cell(name: str, epsilon: float, users: int, protocol: str, trials: int, seed: int) -> dict[str, Any]:
    """RMSE, coverage and bias of one problem."""
    workload, recipe, levels = PROBLEMS[name]
    inputs = recipe(levels, users, np.random.default_rng(DATA_SEED if seed == 1 else [DATA_SEED, seed]))
    counts = np.bincount(inputs, minlength=workload.size).astype(np.int64)
    truth = workload.exact(inputs)
    started = time.perf_counter()
    made: Any = registry.design(protocol, workload, epsilon=epsilon, users=users)
    designed = time.perf_counter() - started
    with one_thread():
        generators = [np.random.default_rng([seed, 77, trial]) for trial in range(trials)]
        found = fast_simulation.play_all(made, counts, generators)
    low, high = workload.bounds
    errors = np.clip([each.value for each in found], low, high) - truth
    rmse = math.sqrt(float(np.mean(errors**2)))
    held = [each.interval95[0] <= truth <= each.interval95[1] for each in found]
    return {
        "statistic": name,
        "epsilon": epsilon,
        "users": users,
        "seed": seed,
        "trials": trials,
        "protocol": made.name,
        "rmse": rmse,
        "predicted": float(made.predicted_rmse(counts / users)),
        "said": math.sqrt(float(np.mean([each.predicted_rmse**2 for each in found]))),
        "coverage": float(np.mean(held)),
        "bias": float(errors.mean() / max(errors.std(), 1e-300) * math.sqrt(trials)),
        "limit": least(workload, counts / users, epsilon, users),
        "design_seconds": designed,
    }


def least(workload: Any, histogram: Any, epsilon: float, users: int) -> float | None:
    """The limit; a version of Parley that has none says nothing."""
    try:
        from parley.protocols.planning.limit import limit
    except ImportError:
        return None
    return limit(workload, histogram, epsilon, users)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """Which cell it is; one round is compared with one round."""
    return row["statistic"], row["epsilon"], row["users"], row["seed"], row["protocol"].startswith("one-round")


def saved(paths: Sequence[Path]) -> list[dict[str, Any]]:
    return [row for path in paths for row in json.loads(path.read_text())]


def keep(path: Path, row: dict[str, Any]) -> None:
    """Add a cell to a file, in place of the same cell if it has one."""
    kept = json.loads(path.read_text()) if path.exists() else []
    others = [each for each in kept if key(each) != key(row)]
    path.write_text(json.dumps([*others, row], indent=1) + "\n")


def table(found: list[dict[str, Any]], before: dict[tuple[Any, ...], dict[str, Any]]) -> str:
    """Saved cells in Markdown."""
    heads = ("data", "seed", "epsilon", "users", "protocol", "RMSE", "over limit", "over before", "coverage", "trials")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in sorted(found, key=lambda row: (row["statistic"] not in MAIN, key(row))):
        old = before.get(key(row))
        over = f"{row['rmse'] / row['limit']:.2f}" if row["limit"] else ""
        ratio = f"{row['rmse'] / old['rmse']:.2f}" if old else ""
        said = [
            row["statistic"],
            str(row["seed"]),
            f"{row['epsilon']:g}",
            f"{row['users']:,}",
            row["protocol"],
            f"{row['rmse']:.4g}",
        ]
        said += [over, ratio, f"{100 * row['coverage']:.1f}%", str(row["trials"])]
        lines.append(f"| {' | '.join(said)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statistic", default="main", help=f"main, all, or some of {', '.join(PROBLEMS)}")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--users", default="10000")
    parser.add_argument("--protocol", default="two-round-tuned")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=Path, help="keep the cells in this file; a cell that it holds is replaced")
    parser.add_argument("--against", type=Path, nargs="+", default=[], help="files with figures of another version")
    parser.add_argument("--show", type=Path, nargs="+", help="run nothing; print the saved cells as a table")
    parser.add_argument("--write", action="store_true", help="with --show: put the table into docs/accuracy.md")
    options = parser.parse_args()
    names = {"main": MAIN, "all": tuple(PROBLEMS)}.get(options.statistic, options.statistic.split(","))
    before = {key(row): row for row in saved(options.against)}
    if options.show:
        text = table(saved(options.show), before)
        print(text)
        if options.write:
            # Not at the top: an earlier version, in which this file runs too, may have another page.
            from benchmarks.accuracy import write

            write("near limit", text)
        return
    print(
        f"{'statistic':21} {'eps':>4} {'users':>8} {'protocol':16} {'RMSE':>9} {'limit':>6} {'before':>7} {'cover':>6}"
    )
    for name in names:
        for epsilon in map(float, options.epsilon.split(",")):
            for users in (int(float(each)) for each in options.users.split(",")):
                row = cell(name, epsilon, users, options.protocol, options.trials, options.seed)
                over = f"{row['rmse'] / row['limit']:6.2f}" if row["limit"] else "     -"
                old = before.get(key(row))
                ratio = f"{row['rmse'] / old['rmse']:7.2f}" if old else "      -"
                print(
                    f"{name:21} {epsilon:4g} {users:8} {row['protocol']:16} {row['rmse']:9.3g} {over} {ratio} "
                    f"{100 * row['coverage']:5.1f}%  bias {row['bias']:5.1f}  predicted {row['predicted']:.3g}",
                    flush=True,
                )
                if options.save:
                    keep(options.save, row)


if __name__ == "__main__":
    main()
