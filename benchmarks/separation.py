"""The paper's separation, shown: random signs, where interaction beats every non-interactive protocol run here.

    python -m benchmarks.separation [--size 128] [--epsilon 1] [--trials 100] [--processes P] [--write]

With --write the figure goes to docs/separation.svg and a sentence about it into docs/accuracy.md.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.accuracy import measure, write
from benchmarks.grid import data, designed, random_signs
from parley.launch.results.sweeps import rmse
from parley.protocols.planning import plan

FIGURE = Path(__file__).parent.parent / "docs" / "separation.svg"
USERS = (3_000, 30_000, 300_000, 3_000_000)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One protocol's measured and predicted RMSE over numbers of users."""

    name: str
    rounds: int
    users: tuple[int, ...]
    measured: tuple[float, ...]
    predicted: tuple[float, ...]


def curves(
    size: int, epsilon: float, users: tuple[int, ...], trials: int, processes: int | None
) -> tuple[list[Curve], list[float]]:
    """Every protocol on one matrix of random signs, and the floor."""
    workload = random_signs(size)
    cases: list[tuple[Any, Any, float]] = []
    keys, predicted, floors = [], {}, []
    for number in users:
        inputs = data(workload, number)
        histogram, truth = workload.histogram(inputs), workload.exact(inputs)
        floors.append(plan.floor(workload, histogram, epsilon, number))
        for name, protocol in designed(workload, epsilon, number).items():
            cases.append((protocol, inputs, truth))
            keys.append((name, protocol.claim.rounds, number))
            predicted[name, number] = protocol.predicted_rmse(histogram)
    found = {key: rmse(each) for key, each in zip(keys, measure(cases, trials, processes), strict=True)}
    names = dict.fromkeys((name, rounds) for name, rounds, _ in keys)
    return [
        Curve(
            name=name,
            rounds=rounds,
            users=users,
            measured=tuple(found[name, rounds, number] for number in users),
            predicted=tuple(predicted[name, number] for number in users),
        )
        for name, rounds in names
        if all((name, rounds, number) in found for number in users)
    ], floors


def separations(found: list[Curve]) -> dict[int, tuple[str, float, str, float]]:
    """For each number of users the best interactive and the best non-interactive protocol as measured."""
    result = {}
    for index, users in enumerate(found[0].users):
        best = {
            alone: min((curve for curve in found if (curve.rounds == 1) == alone), key=lambda c: c.measured[index])
            for alone in (False, True)
        }
        result[users] = (best[False].name, best[False].measured[index], best[True].name, best[True].measured[index])
    return result


def draw(found: list[Curve], floors: list[float], title: str) -> None:
    """Interactive protocols in full, non-interactive ones dashed; predictions as thin lines."""
    from matplotlib import pyplot

    pyplot.rcParams["svg.hashsalt"] = "parley"
    figure, axes = pyplot.subplots(figsize=(8.5, 5.5))
    for curve in found:
        line = axes.loglog(
            curve.users,
            curve.measured,
            marker="o" if curve.rounds > 1 else "s",
            markersize=4,
            linestyle="-" if curve.rounds > 1 else "--",
            label=f"{curve.name} ({curve.rounds} round{'s' if curve.rounds > 1 else ''})",
        )[0]
        axes.loglog(curve.users, curve.predicted, linewidth=0.5, color=line.get_color())
    axes.loglog(found[0].users, floors, color="black", linestyle=":", label="floor: h known")
    axes.set(xlabel="users", ylabel="RMSE", title=title)
    axes.grid(visible=True, which="both", linewidth=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found, floors = curves(options.size, options.epsilon, USERS, options.trials, options.processes)
    lines = [
        f"{users:,} users: {inner} {inside:.3g}, {outer} {outside:.3g}"
        for users, (inner, inside, outer, outside) in separations(found).items()
    ]
    print("\n".join(lines))
    if options.write:
        title = f"Random signs, k = {options.size}, epsilon = {options.epsilon:g}, {options.trials} runs a point"
        draw(found, floors, title)
        rows = "\n".join(f"- {line}" for line in lines)
        write("separation", f"\nBest interactive against best non-interactive protocol:\n\n{rows}\n")


if __name__ == "__main__":
    main()
