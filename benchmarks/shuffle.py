"""The shuffle model beside the local one: makes the tables of docs/shuffle.md.

    python -m benchmarks.shuffle [--trials 400] [--write]

Without --write the tables are printed; with it each replaces its block in docs/shuffle.md. Trials are those of
`parley sweep`: the analyst's own code on tallies drawn from their law (protocols/planning/fast_simulation.py).
"""

import argparse
import math
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reference.amplification import clones_closed_form, epsilon_bound, of_cap, of_clones
from benchmarks.reference.codebooks import best_codebook
from benchmarks.reference.privunit import PrivUnit
from benchmarks.reference.simulate_shuffled import simulate_shuffled
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.protocols import registry
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.plan import choose
from parley.protocols.shuffle.amplification import of_choice
from parley.protocols.shuffle.split_and_mix import SplitAndMix
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Workload

PAGE = Path(__file__).parent.parent / "docs" / "shuffle.md"
EPSILON, DELTA = 1.0, 1e-6
USERS = (10_000, 100_000)
LOCAL = ("one-round", "one-round-tuned", "auto")
SHUFFLED = ("shuffled", "split-and-mix")
SEED = 1


def problems() -> dict[str, Workload]:
    """The problems the gain is shown on."""
    return {
        "Kendall 8x8": Kendall(levels=(8, 8)),
        "Gini mean difference 64": GiniMeanDifference(levels=64),
        "AUC 32": AreaUnderCurve(levels=32),
    }


def made(name: str, workload: Workload, users: int) -> Any:
    """A protocol for eps = 1, and delta = 1e-6 where it has one."""
    if name == "auto":
        return choose(workload, EPSILON, users)
    return registry.design(name, workload, epsilon=EPSILON, users=users, delta=DELTA)


def accuracy(trials: int) -> str:
    """RMSE predicted for the data's histogram and measured, and the gain in MSE over the paper's one round."""
    rows: list[tuple[str, ...]] = []
    for title, workload in problems().items():
        for users in USERS:
            inputs = draw(names(workload)[0], workload, users, np.random.default_rng(SEED))
            counts, truth = np.bincount(inputs, minlength=workload.size), workload.exact(inputs)
            base = 0.0
            for name in (*LOCAL, *SHUFFLED):
                protocol, generator = made(name, workload, users), np.random.default_rng([SEED, len(rows)])
                errors = [fast_simulation.play(protocol, counts, generator).value - truth for _ in range(trials)]
                predicted = float(protocol.predicted_rmse(counts / users))
                measured = float(np.sqrt(np.mean(np.square(errors))))
                base = base or measured
                label = f"auto: {protocol.name}" if name == "auto" else name
                gain = (base / measured) ** 2
                rows.append((title, f"{users:,}", label, f"{predicted:.3g}", f"{measured:.3g}", f"{gain:,.3g}"))
    return table(("problem", "users", "protocol", "predicted RMSE", "measured RMSE", "gain in MSE"), rows)


def factors() -> str:
    """Where the factor n goes: the two linear terms of the MSE, taken apart."""
    rows = []
    for title, workload in problems().items():
        users = USERS[-1]
        mixed, verbatim = made("split-and-mix", workload, users), made("one-round", workload, users)
        local = verbatim.noise.noise.isotropic / verbatim.noise.factors.radius**2
        spread = mixed.sensitivity.square / (mixed.scale * mixed.factors.radius) ** 2
        noise = mixed.variance * users / mixed.sensitivity.square
        gain = 2 * local / (4 * noise * spread)
        rows.append((title, f"{local:.1f}", f"{noise:.1f}", f"{spread:.2f}", f"n x {gain:.3g}", f"{gain * users:,.0f}"))
    return table(
        ("problem", "local noise / C^2", "noise / Delta_2^2", "Delta_2^2 / C^2", "gain of linear term", "at n = 1e5"),
        rows,
    )


def amplification() -> str:
    """eps of shuffled replies by bound, for the randomizers there are."""
    rows = []
    for users in (10_000, 100_000, 1_000_000):
        for local in (0.5, 1.0, 2.0, 4.0):
            codebook = best_codebook(dimension=64, radius=1.0, epsilon=local)
            cap = PrivUnit(dimension=64, radius=1.0, epsilon=local)
            try:
                closed = f"{clones_closed_form(local, users, DELTA):.4f}"
            except BadInput:
                closed = "does not apply"
            rows.append(
                (
                    f"{users:,}",
                    f"{local:g}",
                    f"{epsilon_bound(of_choice(codebook.choice), users, DELTA):.5f}",
                    f"{epsilon_bound(of_cap(local, cap_share(cap)), users, DELTA):.5f}",
                    f"{epsilon_bound(of_clones(local), users, DELTA):.5f}",
                    closed,
                )
            )
    heads = ("users", "eps_0", "codebook (16)", "PrivUnit", "clones, numerical", "clones, closed form")
    return table(heads, rows)


def cap_share(randomizer: PrivUnit) -> float:
    """The share of the sphere that PrivUnit favours."""
    return min(0.5, float(randomizer.cap))


def parameters() -> str:
    """What is chosen for split-and-mix, and what it costs."""
    rows = []
    for title, workload in problems().items():
        for users in USERS:
            mixed: SplitAndMix = made("split-and-mix", workload, users)
            shuffled = made("shuffled", workload, users)
            size = mixed.encoder.dimension * mixed.shares * mixed.encoder.dtype.itemsize
            deviation = math.sqrt(users * mixed.variance) / mixed.scale
            laplace = math.sqrt(2) * mixed.sensitivity.absolute / EPSILON / mixed.scale
            rows.append(
                (
                    *(title, f"{users:,}", f"{mixed.encoder.dimension}", f"2^-{mixed.fraction}", f"2^{mixed.bits}"),
                    *(f"{mixed.shares}", f"{deviation:.1f}", f"{laplace:.1f}", f"{size:,}"),
                    f"{shuffled.local_epsilon:.2f}",
                )
            )
    heads = ("problem", "users", "d", "grid", "Q", "m", "deviation of a sum", "with Laplace", "bytes per user")
    return table((*heads, "eps_0 of `shuffled`"), rows)


def roles() -> str:
    """Real roles through the shuffler in memory: the same estimator on real shares, with its time."""
    rows = []
    for title, workload in problems().items():
        users = USERS[0]
        inputs = draw(names(workload)[0], workload, users, np.random.default_rng(SEED))
        for name in SHUFFLED:
            protocol, began = made(name, workload, users), time.perf_counter()
            result = simulate_shuffled(protocol, inputs, key_from_seed(SEED), nodes=4)
            error = result.estimate - workload.exact(inputs)
            seconds = time.perf_counter() - began
            rows.append((title, name, f"{error:+.2e}", f"{result.predicted_rmse:.2e}", f"{seconds:.1f}"))
    return table(("problem, 10,000 users", "protocol", "error", "predicted RMSE", "seconds"), rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_block(page: str, name: str, body: str) -> str:
    """The page with one block exchanged."""
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise BadInput(f"{PAGE} has no block {name}")
    return pattern.sub(lambda found: f"{found[1]}{body}\n{found[2]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--only", default="accuracy,factors,parameters,roles,amplification")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    tables: dict[str, Callable[[], str]] = {
        "accuracy": lambda: accuracy(arguments.trials),
        "factors": factors,
        "parameters": parameters,
        "roles": roles,
        "amplification": amplification,
    }
    for name in arguments.only.split(","):
        body = tables[name]()
        print(f"{name}\n{body}\n")
        if arguments.write:
            PAGE.write_text(replace_block(PAGE.read_text(), name, body))


if __name__ == "__main__":
    main()
