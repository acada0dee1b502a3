"""What a table as first channel gains over a codebook, where there are few inputs.

    python -m benchmarks.strategy [--problem "Kendall 3x3" ...] [--rounds one ...] [--trials 400] [--save figures.json]
    python -m benchmarks.strategy --show benchmarks/strategy.json --write
    python -m benchmarks.strategy --exact

Runs are simulated: the analyst's own code on tallies of 10,000 users, the codebook and the table from the same seeds,
on the data of `benchmarks/near_limit.py`. "Codebook" is what the planner picks where tables are not allowed.

--exact compares the product's table for p = 2 with the best channel of all, as cvxpy finds it from every pattern of
favoured inputs (McKenna et al. 2020; `protocols/randomizers/channels/strategy_matrix.py` has the program): the ratio of
the RMSEs of <h~, W e_x> with equally common inputs.
"""

import argparse
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.accuracy import write
from benchmarks.grid import table
from benchmarks.near_limit import beta, pair, scores
from parley.emulator.arithmetic import one_thread
from parley.emulator.randomizer import Floats, Integers
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.families import first_channels
from parley.protocols.randomizers.channels.channel import TABLE_BITS, rounded
from parley.protocols.randomizers.channels.folded_channel import FoldedChannel
from parley.protocols.randomizers.channels.strategy_matrix import strategy_table
from parley.protocols.tuned.decoder import Decoder
from parley.protocols.tuned.embedding import embedding
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall

USERS = 10_000
EPSILONS = (0.5, 1.0, 2.0, 4.0)
PROBLEMS: dict[str, tuple[Any, Any, int]] = {
    "Kendall 3x3": (Kendall(levels=(3, 3)), pair, 3),
    "AUC 4": (AreaUnderCurve(levels=4), scores(0.35), 4),
    "GMD 8": (GiniMeanDifference(levels=8), beta(2, 4), 8),
    "diversity 8": (GiniDiversity(levels=8), beta(2, 4), 8),
    "Kendall 4x4": (Kendall(levels=(4, 4)), pair, 4),
}
HEADS = ("problem", "rounds", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS), "least coverage")


@contextmanager
def codebooks_only() -> Iterator[None]:
    most, first_channels.MOST_TABLED = first_channels.MOST_TABLED, 0
    try:
        yield
    finally:
        first_channels.MOST_TABLED = most


def cell(name: str, rounds: str, epsilon: float, trials: int) -> dict[str, Any]:
    """RMSE and coverage of the codebook and of what is designed now."""
    workload, recipe, levels = PROBLEMS[name]
    inputs = recipe(levels, USERS, np.random.default_rng(1000))
    counts, truth = np.bincount(inputs, minlength=workload.size).astype(np.int64), workload.exact(inputs)
    with codebooks_only():
        before: Any = registry.design(f"{rounds}-round-tuned", workload, epsilon=epsilon, users=USERS)
    now: Any = registry.design(f"{rounds}-round-tuned", workload, epsilon=epsilon, users=USERS)
    found: dict[str, Any] = {"problem": name, "rounds": rounds, "epsilon": epsilon, "trials": trials}
    for which, protocol in (("before", before), ("now", now)):
        with one_thread():
            generators = [np.random.default_rng([1, 77, trial]) for trial in range(trials)]
            said = fast_simulation.play_all(protocol, counts, generators)
        errors = np.array([each.value for each in said]) - truth
        held = [each.interval95[0] <= truth <= each.interval95[1] for each in said]
        found[which] = {
            "rmse": math.sqrt(float(np.mean(errors**2))),
            "coverage": float(np.mean(held)),
            "bias": float(errors.mean() / errors.std() * math.sqrt(trials)),
            "predicted": float(protocol.predicted_rmse(counts / USERS)),
            "outputs": 0 if protocol.strategy is None else int(protocol.strategy.shape[1]),
        }
    return found


def ratio(found: dict[str, Any]) -> str:
    return f"{found['now']['rmse'] / found['before']['rmse']:.2f}"


def rows(found: list[dict[str, Any]]) -> list[list[str]]:
    """A row for each problem and number of rounds: what the table is worth at each epsilon."""
    shown = []
    for rounds, name in product(("one", "two"), PROBLEMS):
        cells = {each["epsilon"]: each for each in found if (each["problem"], each["rounds"]) == (name, rounds)}
        if cells:
            least = min(each["now"]["coverage"] for each in cells.values())
            ratios = [ratio(cells[epsilon]) if epsilon in cells else "" for epsilon in EPSILONS]
            shown.append([name, rounds, *ratios, f"{100 * least:.1f}%"])
    return shown


def best(form: Floats, epsilon: float) -> Floats:
    """The likelihood of the channel with the least mean variance of all, by an exact program."""
    size = len(form)
    patterns = np.array(list(product([1.0, math.exp(epsilon)], repeat=size)))[1:-1]
    weights = cp.Variable(len(patterns), nonneg=True)
    outer = np.einsum("yi,yj->yij", patterns, patterns) / patterns.mean(axis=1)[:, None, None]
    information = cp.reshape(outer.reshape(len(patterns), -1).T @ weights, (size, size), order="C")
    cost = sum(cp.matrix_frac(form[:, column], information) for column in range(size))
    cp.Problem(cp.Minimize(cost / size), [patterns.T @ weights == 1]).solve(solver=cp.CLARABEL)
    value: Any = weights.value
    return np.asarray(patterns * np.maximum(value, 1e-9)[:, None])


def spent(weights: Integers, epsilon: float, form: Floats) -> float:
    """The mean variance of <h~, W e_x>, less what users' own values contribute."""
    decoder = Decoder(channel=FoldedChannel(weights=weights, epsilon=epsilon, folds=1))
    return float(np.trace(form.T @ decoder.inverse @ form)) / len(form) - float((form**2).mean(axis=0).mean())


def exact_rows() -> list[list[str]]:
    found = []
    for name, (workload, *_) in PROBLEMS.items():
        if workload.size > 9:
            continue
        form = workload.matrix() - workload.shift
        for epsilon in EPSILONS:
            ours = strategy_table(embedding(workload, 2.0) if workload.name != "auc" else form, epsilon)
            least, allowed = rounded(best(form, epsilon).T, TABLE_BITS), epsilon + 1e-3
            ratio = math.sqrt(spent(ours, allowed, form) / spent(least, allowed, form))
            found.append([name, f"{epsilon:g}", f"{ratio:.4f}", str(ours.shape[1])])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--rounds", nargs="+", choices=("one", "two"), default=["one", "two"])
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--save", type=Path, help="keep the cells in this file; cells that it holds are not run again")
    parser.add_argument("--show", type=Path, help="run nothing; print the cells of this file as a table")
    parser.add_argument("--exact", action="store_true", help="compare the product's tables with the best of all")
    parser.add_argument("--write", action="store_true", help="put the table into docs/accuracy.md")
    options = parser.parse_args()
    if options.exact:
        print(table(("problem", "epsilon", "ours over best", "outputs"), exact_rows()))
        return
    path = options.show or options.save
    found = json.loads(path.read_text()) if path and path.exists() else []
    known = {(each["problem"], each["rounds"], each["epsilon"]) for each in found}
    for rounds, name, epsilon in product(() if options.show else options.rounds, options.problem, EPSILONS):
        if (name, rounds, epsilon) not in known:
            found.append(cell(name, rounds, epsilon, options.trials))
            print(name, rounds, epsilon, ratio(found[-1]), flush=True)
            if options.save:
                options.save.write_text(json.dumps(found, indent=1) + "\n")
    text = table(HEADS, rows(found))
    print(text)
    if options.write:
        write("strategy", text)


if __name__ == "__main__":
    main()
