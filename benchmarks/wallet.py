"""How many runs does a user answer before its wallet refuses? Constant values, against plain summing of epsilons.

    python -m benchmarks.wallet [--users N] [--most RUNS] [--write] [--json]

Each user has one value, drawn evenly, and answers the same question run after run through the real wallet until it is
refused. The figure is how many runs the median user answers (and the tenth and ninetieth of a hundred); users who still
answer after --most runs count as that many. Plain summing answers floor(cap / epsilon).
"""

import json
import math
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.page import table, write_block
from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.protocol import Analysis, Protocol
from parley.emulator.roles.wallet.entries import Terms, View
from parley.emulator.roles.wallet.wallet import Wallet
from parley.protocols.registry import build, design
from parley.protocols.workloads.kendall import Kendall

PAGE = Path(__file__).resolve().parent.parent / "docs" / "wallet.md"
KINDS = ("frequency-grr", "frequency-subset", "one-round-tuned")
PROBLEMS = ((2.0, 0.1, 16), (2.0, 0.1, 256), (2.0, 0.5, 16), (4.0, 0.5, 16), (1.0, 0.1, 4))
DECILES = (10, 50, 90)


def answered(protocol: Protocol, cap: float, users: int, most: int) -> list[float]:
    """How many runs users answer, at the deciles."""
    wallet = Wallet(Terms(users=users, mode="constant", cap=cap, inputs=protocol.inputs, domain={}), build)
    inputs = np.random.default_rng(1).integers(0, protocol.inputs, users)
    step, count = protocol.rounds[0], np.zeros(users, np.int64)
    asked = np.ones(users, np.bool_)
    for number in range(most):
        wallet.accept(f"run-{number}", protocol, view=View())
        # Once refused, a user who says nothing more is refused for good: there is no need to ask again.
        asked = wallet.grant(f"run-{number}", 1, Analysis(protocol).open(), asked)
        if not asked.any():
            break
        flips = addressed(key_from_seed(number), 1, 0, users, step.coins)[asked]
        public, places = Analysis(protocol).open(), np.flatnonzero(asked)
        said = step.respond(public, inputs[asked], flips, places)
        wallet.said(f"run-{number}", 1, places, step.complete(public, places, said))
        count += asked
    assert wallet.spent().loss.max() <= cap
    return [float(each) for each in np.percentile(count, DECILES, method="nearest")]


def measure(users: int, most: int) -> list[dict[str, Any]]:
    rows = []
    for cap, epsilon, inputs in PROBLEMS:
        side = math.isqrt(inputs)
        for name in KINDS:
            protocol = design(name, Kendall(levels=(side, side)), epsilon=epsilon, users=users)
            low, median, high = answered(protocol, cap, users, most)
            plain = math.floor(round(cap / epsilon, 9))
            rows.append(
                {
                    "cap": cap,
                    "epsilon": epsilon,
                    "k": inputs,
                    "protocol": name,
                    "sum": plain,
                    "tenth": low,
                    "median": median,
                    "ninetieth": high,
                }
            )
            click.echo(json.dumps(rows[-1]), err=True)
    return rows


def shown(rows: list[dict[str, Any]], users: int, most: int) -> str:
    """The rows as Markdown."""
    heads = ("cap", "epsilon", "k", "protocol", "summing", "10% answer at most", "median", "90% answer at most")
    deciles = ("tenth", "median", "ninetieth")
    cells = [
        (
            *(row[each] for each in ("cap", "epsilon", "k")),
            f"`{row['protocol']}`",
            row["sum"],
            *(f"{row[each]:,.0f}" if row[each] < most else f"{most:,} or more" for each in deciles),
        )
        for row in rows
    ]
    command = f"python -m benchmarks.wallet --users {users} --most {most} --write"
    return f"{table(heads, cells)}\n\nMeasured with `{command}`."


@click.command()
@click.option("--users", default=400, show_default=True, help="Users whose runs are counted.")
@click.option("--most", default=3000, show_default=True, help="Runs after which to stop.")
@click.option("--write", is_flag=True, help="Put the table into docs/wallet.md.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(users: int, most: int, write: bool, as_json: bool) -> None:
    """Count how many runs users answer with a wallet of constant values."""
    rows = measure(users, most)
    click.echo(json.dumps(rows, indent=2) if as_json else shown(rows, users, most))
    if write:
        write_block("answered", shown(rows, users, most), PAGE)


if __name__ == "__main__":
    main()
