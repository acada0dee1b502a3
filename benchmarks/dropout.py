"""Does dropout bias the estimate? In-memory runs in which every user is silent in every round with some probability.

    python -m benchmarks.dropout [--runs N] [--silent 0.3] [--users N] [--write docs/reliability.md] [--json]

For every protocol that trusts nobody: the mean error, the error's standard deviation, z = mean / standard error of the
mean, how often the 95% interval covered the truth, and how much wider it was than without dropout. Silence is drawn for
each user alone, so replies are a random sample of the users and an unbiased protocol stays unbiased.
"""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.wire.messages import Announce, Close, Message, Replies, Result, Roster
from parley.protocols.registry import design, names
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload
from parley.protocols.workloads.workload import Workload

RUN = "dropout"
PROBLEMS = (("kendall", "3x3"), ("gini-mean-difference", "8"), ("auc", "8"))
BEGIN, END = "<!-- dropout: begin -->", "<!-- dropout: end -->"


def estimate(protocol: Protocol, inputs: Inputs, key: bytes, silent: float, generator: np.random.Generator) -> Result:
    """One run: the real analyst and the real replies, but for those who stay silent."""
    analyst, users = AnalystRole(protocol, RUN), np.arange(len(inputs))
    waiting: list[Message] = [Roster(run=RUN, nodes=1, users=len(inputs))]
    while waiting:
        message = waiting.pop(0)
        waiting += analyst.hear(message)
        if isinstance(message, Result):
            return message
        if isinstance(message, Announce):
            step = protocol.rounds[message.round - 1]
            speaking = users[step.participates(users) & (generator.random(len(users)) >= silent)]
            flips = addressed(key, message.round, 0, len(inputs), step.coins)[speaking]
            columns = step.respond(message.broadcast, inputs[speaking], flips, speaking)
            waiting.append(
                Replies(run=RUN, round=message.round, node="all", chunk=0, chunks=1, users=speaking, columns=columns)
            )
            missing = len(inputs) - len(speaking)
            waiting.append(Close(run=RUN, round=message.round, replies=len(speaking), missing=missing))
    raise LocalProtocolError("the run ended without a result")


def measure(protocol: Protocol, workload: Workload, *, users: int, runs: int, silent: float) -> dict[str, Any]:
    """Mean error and its standard error, coverage, and the width of the interval against that without dropout."""
    generator = np.random.default_rng(3)
    name = synthetic.names(workload)[0]
    errors, covered, wider = [], 0, []
    for seed in range(runs):
        inputs = synthetic.draw(name, workload, users, generator)
        key = key_from_seed(seed)
        with one_thread():
            found = estimate(protocol, inputs, key, silent, generator)
            whole = estimate(protocol, inputs, key, 0.0, generator)
        truth = exact(workload, inputs, found)
        errors.append(found.estimate - truth)
        covered += found.low <= truth <= found.high
        wider.append((found.high - found.low) / (whole.high - whole.low))
    deviation = float(np.std(errors, ddof=1))
    return {
        "protocol": protocol.name,
        "statistic": workload.name,
        "runs": runs,
        "mean_error": float(np.mean(errors)),
        "deviation": deviation,
        "z": float(np.mean(errors)) / (deviation / math.sqrt(runs)),
        "covered": covered / runs,
        "wider": float(np.median(wider)),
    }


def exact(workload: Workload, inputs: Inputs, found: Result) -> float:
    """What the estimate is of: the statistic or, where linear queries were answered, the one the result names."""
    if "query" in found.details:
        return float(workload.apply(workload.histogram(inputs))[found.details["query"]])
    return workload.exact(inputs)


def problems(users: int, epsilon: float) -> Iterator[tuple[Protocol, Workload]]:
    """Each protocol with the first problem it takes."""
    for name in names():
        for problem in PROBLEMS:
            workload = make_workload(*problem, None)
            with suppress(BadInput):
                protocol = design(name, workload, epsilon=epsilon, users=users)
                if protocol.claim.trusts == "nobody":
                    yield protocol, workload
                    break


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = ["| protocol | statistic | mean error | deviation | z | covered | interval |", "|---" * 7 + "|"]
    for row in rows:
        cells = (f"{row['mean_error']:+.4f}", f"{row['deviation']:.4f}", f"{row['z']:+.2f}", f"{row['covered']:.1%}")
        lines.append(f"| {row['protocol']} | {row['statistic']} | {' | '.join(cells)} | x {row['wider']:.2f} |")
    return "\n".join(lines)


@click.command()
@click.option("--runs", default=200, show_default=True, help="Runs of each protocol.")
@click.option("--users", default=4000, show_default=True, help="Users of a run.")
@click.option("--silent", default=0.3, show_default=True, help="How likely a user is silent in a round.")
@click.option("--write", type=click.Path(path_type=Path), help="Put the table into this page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(runs: int, users: int, silent: float, write: Path | None, as_json: bool) -> None:
    """Measure what dropout does to every protocol."""
    rows = [measure(each, workload, users=users, runs=runs, silent=silent) for each, workload in problems(users, 4.0)]
    click.echo(json.dumps(rows, indent=2) if as_json else table(rows))
    if write is not None:
        before, rest = write.read_text().split(BEGIN)
        write.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
