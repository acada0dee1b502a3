"""How much the constants of the tuned protocols matter: the RMSE with another value over that with ours.

    python -m benchmarks.constants [--trials 200] [--write]

Nearly all of it is predicted (`predicted_rmse` at the data's own histogram), with the share and the power of the design
and one thing changed at a time; folds are simulated. Data are those of `near_limit`, n = 10,000. The table names the
smallest and the largest ratio over Kendall 8x8, AUC 32 and GMD 64 at epsilon 1, 2 and 4.
"""

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.accuracy import write
from benchmarks.grid import table
from benchmarks.near_limit import DATA_SEED, PROBLEMS
from parley.emulator.arithmetic import one_thread
from parley.emulator.randomizer import Floats
from parley.protocols import registry
from parley.protocols.planning import fast_simulation, limit
from parley.protocols.planning.families import tuned as family
from parley.protocols.tuned import codebook_round, embedding, scalar_question

USERS = 10_000
EPSILONS = (1.0, 2.0, 4.0)
NAMES = ("kendall8", "auc32", "gmd64")
DRAWS = 8


class Case:
    """One problem with its design."""

    def __init__(self, name: str, epsilon: float) -> None:
        self.workload, recipe, levels = PROBLEMS[name]
        self.inputs = recipe(levels, USERS, np.random.default_rng(DATA_SEED))
        self.counts = np.bincount(self.inputs, minlength=self.workload.size).astype(np.int64)
        self.histogram: Floats = self.counts / USERS
        self.protocol: Any = registry.design("two-round-tuned", self.workload, epsilon=epsilon, users=USERS)
        self.usual = self.predicted()

    def predicted(self, **changed: Any) -> float:
        return float(replace(self.protocol, **changed).predicted_rmse(self.histogram))

    def ratio(self, **changed: Any) -> float:
        return self.predicted(**changed) / self.usual


@contextmanager
def constant(module: Any, name: str, value: Any) -> Iterator[None]:
    """Another value for as long as it is needed."""
    before = getattr(module, name)
    setattr(module, name, value)
    codebook_round._codebook.cache_clear()
    try:
        yield
    finally:
        setattr(module, name, before)
        codebook_round._codebook.cache_clear()


def label_share(case: Case, share: float) -> float:
    with constant(embedding, "LABEL_SHARE", share):
        return case.ratio()


def even_share(case: Case, share: float) -> float:
    """V2 of tables made for h^, at h: the share decides how far h^ is believed."""

    def spent(part: float) -> float:
        with constant(scalar_question, "EVEN", part):
            return sum(_table_variance(case, histogram) for histogram in _found(case))

    return math.sqrt(spent(share) / spent(scalar_question.EVEN))


def _found(case: Case) -> list[Floats]:
    decoder = case.protocol.decoder
    normal = family.normal_draws(len(decoder.likelihood), DRAWS)
    return list(decoder.nearest(decoder.perturbed(case.histogram, case.protocol.share * USERS, normal)).T)


def _table_variance(case: Case, found: Floats) -> float:
    question = scalar_question.scalar_question(case.protocol.objective.at(found), case.protocol.epsilon)
    return question.variance(case.histogram)


def finer_table(case: Case, _: float) -> float:
    """The table of 21 rows against the finer one behind the limit."""
    point = case.protocol.objective.at(case.histogram)
    ours = scalar_question.scalar_question(point, case.protocol.epsilon).variance(case.histogram)
    return math.sqrt(limit.least_variance(point.gradient, case.histogram, case.protocol.epsilon) / ours)


def steps(case: Case, number: float) -> float:
    """The RMSE if h^ is found with so many steps, from the second-order variance alone."""
    decoder, point = case.protocol.decoder, case.protocol.objective.at(case.histogram)
    normal = family.normal_draws(len(decoder.likelihood), family.SKETCHES)
    scores = decoder.perturbed(case.histogram, case.protocol.share * USERS, normal)
    few, many = (
        float(point.second_order(decoder.nearest(scores, taken) - case.histogram[:, None]).var())
        for taken in (int(number), 1000)
    )
    return math.sqrt(1 + (few - many) / case.usual**2)


def one_round_folds(trials: int) -> Callable[[Case, float], float]:
    """Simulated: the RMSE of one round with so many folds, over that with ours, from the same draws."""

    def measured(case: Case, folds: float) -> float:
        made: Any = registry.design("one-round-tuned", case.workload, epsilon=case.protocol.epsilon, users=USERS)
        return _rmse(case, replace(made, folds=int(folds)), trials) / _rmse(case, made, trials)

    return measured


def _rmse(case: Case, protocol: Any, trials: int) -> float:
    truth = case.workload.exact(case.inputs)
    generators = [np.random.default_rng([5, trial]) for trial in range(trials)]
    found = fast_simulation.play_all(protocol, case.counts, generators)
    return math.sqrt(float(np.mean([(each.value - truth) ** 2 for each in found])))


def half_seeds(case: Case, factor: float) -> float:
    return case.ratio(seeds=int(case.protocol.seeds * factor))


def favoured(case: Case, more: float) -> float:
    return case.ratio(top=max(1, case.protocol.top + int(more)))


def shares(case: Case, factor: float) -> float:
    return case.ratio(share=min(0.95, case.protocol.share * factor))


def powers(case: Case, power: float) -> float:
    return case.ratio(power=power)


def rows(trials: int) -> list[list[str]]:
    cases = {(name, epsilon): Case(name, epsilon) for name in NAMES for epsilon in EPSILONS}
    asked: list[tuple[str, str, Callable[[Case, float], float], tuple[float, ...]]] = [
        ("seeds", "512 for 16 candidates", half_seeds, (0.25, 0.5)),
        ("favoured candidates", "by epsilon", favoured, (-1, 1)),
        ("share of the first round", "by prediction", shares, (0.625, 1.6)),
        ("power", "by prediction", powers, (1.0, 1.5, 2.0, 3.0)),
        ("label's share of the codebook (AUC)", f"{embedding.LABEL_SHARE:g}", label_share, (0.06, 0.25, 0.5)),
        ("even part of the table's histogram", f"{scalar_question.EVEN:g}", even_share, (0.0, 0.01, 0.1, 0.3)),
        ("table of 41 x 97 instead of 21 x 33", "21 x 33", finer_table, (1.0,)),
        ("steps of the projection", "150, and 80 for predictions", steps, (40, 80, 150)),
        ("folds of one round (simulated)", "8", one_round_folds(trials), (2, 4, 16)),
    ]
    found = []
    for name, ours, measure, values in asked:
        chosen = [
            case
            for (problem, epsilon), case in cases.items()
            if (measure is not label_share or problem == "auc32") and ("simulated" not in name or epsilon == 1.0)
        ]
        for value in values:
            ratios = [measure(case, value) for case in chosen]
            found.append([name, ours, _said(name, value), f"{min(ratios):.3f}", f"{max(ratios):.3f}"])
    return found


def _said(name: str, value: float) -> str:
    if name.startswith(("seeds", "share")):
        return f"times {value:g}"
    if name.startswith("favoured"):
        return f"{value:+g}"
    return "41 x 97" if name.startswith("table") else f"{value:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--write", action="store_true", help="put the table into docs/accuracy.md")
    options = parser.parse_args()
    with one_thread():
        text = table(("constant", "ours", "instead", "least ratio", "largest ratio"), rows(options.trials))
    print(text)
    if options.write:
        write("constants", text)


if __name__ == "__main__":
    main()
