"""Whether the best strategy matrix (McKenna et al. 2020) would pay in the first round, where there are few inputs.

    python -m benchmarks.strategy [--write]

The best eps-LDP channels for linear estimates have likelihoods w_y or e^eps w_y only. So a channel is a set of weights,
one for each of the 2^k patterns of favoured inputs, and its information H = sum_y w_y p_y p_y' / mean(p_y) is linear in
them: minimising tr(B'H^-1 B) is a convex program, solved here exactly. B holds the columns of W, so the number is the
mean variance of <h~, W e_x> with equally common inputs. The codebook of the tuned protocols is measured by the same.
"""

import argparse
import math
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np

from benchmarks.accuracy import write
from benchmarks.grid import table
from parley.emulator.randomizer import Floats
from parley.protocols import registry
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall

USERS = 10_000
EPSILONS = (0.5, 1.0, 2.0, 4.0)


def problems() -> dict[str, Any]:
    return {
        "Kendall 3x3": Kendall(levels=(3, 3)),
        "AUC 4": AreaUnderCurve(levels=4),
        "GMD 8": GiniMeanDifference(levels=8),
        "diversity 8": GiniDiversity(levels=8),
    }


def best(form: Floats, epsilon: float) -> float:
    """The least mean variance of all channels."""
    size = len(form)
    patterns = np.array(list(product([1.0, math.exp(epsilon)], repeat=size)))[1:-1]
    # Inputs are told apart by their differences; a direction that adds up to nothing is all that is asked for.
    weights = cp.Variable(len(patterns), nonneg=True)
    outer = np.einsum("yi,yj->yij", patterns, patterns) / patterns.mean(axis=1)[:, None, None]
    information = cp.reshape(outer.reshape(len(patterns), -1).T @ weights, (size, size), order="C")
    cost = sum(cp.matrix_frac(form[:, column], information) for column in range(size))
    problem = cp.Problem(cp.Minimize(cost / size), [patterns.T @ weights == 1])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value) - _exact(form)


def codebook(protocol: Any, form: Floats) -> float:
    """The same of a codebook."""
    return float(np.trace(form.T @ protocol.decoder.inverse @ form)) / len(form) - _exact(form)


def _exact(form: Floats) -> float:
    """What users' own values contribute: the truth is theirs, so it is no error."""
    return float((form**2).mean(axis=0).mean())


def rows() -> list[list[str]]:
    found = []
    for name, workload in problems().items():
        form = workload.matrix() - workload.shift
        for epsilon in EPSILONS:
            made: Any = registry.design("one-round-tuned", workload, epsilon=epsilon, users=USERS)
            ratio = math.sqrt(codebook(made, form) / best(form, epsilon))
            subset: Any = registry.design("frequency-subset", workload, epsilon=epsilon, users=USERS)
            even = np.full(len(form), 1 / len(form))
            other = np.mean([subset.moments.along(column, even) for column in form.T])
            found.append([name, f"{epsilon:g}", f"{ratio:.3f}", f"{math.sqrt(other / best(form, epsilon)):.3f}"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/accuracy.md")
    options = parser.parse_args()
    text = table(("problem", "epsilon", "codebook over best", "subset selection over best"), rows())
    print(text)
    if options.write:
        write("strategy", text)


if __name__ == "__main__":
    main()
