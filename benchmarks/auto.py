"""How `auto` compares with everything else it could have chosen: a race of all protocols in every cell of the grid.

Every protocol that can be used for a cell runs PILOT trials, and the choice of `auto` more. Where the ratio of the
RMSEs is not yet on one side of its limit by SURE standard errors, the rival goes on, and the choice with it, until it
is or MOST trials are over. No prediction takes part in this.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.grid import BASELINES, EPSILONS, SEED, USERS, data, problems, table
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.launch.results.sweeps import batches, rmse, spread, trial
from parley.protocols.planning import plan

PILOT = 40
SURE = 3.0
MOST = 6400
# How much worse than the best of all `auto` may be, and than the best baseline.
OF_ALL, OF_BASELINES = 1.05, 1.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One problem of the grid; whoever goes on after the pilot runs at least `trials`."""

    problem: str
    epsilon: float
    users: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class Finish:
    """How one protocol of a cell ended: its RMSE, the relative standard error of that, and after how many trials."""

    name: str
    rmse: float
    doubt: float
    trials: int


@dataclass(frozen=True, kw_only=True)
class Race:
    """A cell with the choice of `auto` and all its rivals."""

    cell: Cell
    chosen: Finish
    rivals: tuple[Finish, ...]

    def closest(self, names: tuple[str, ...] | None = None) -> Finish:
        """The best rival, of these names or of all."""
        return min((each for each in self.rivals if names is None or each.name in names), key=lambda each: each.rmse)

    def against(self, rival: Finish) -> tuple[float, float]:
        """The ratio of the RMSEs and its standard error."""
        ratio = self.chosen.rmse / rival.rmse
        return ratio, ratio * math.hypot(self.chosen.doubt, rival.doubt)


class Runner:
    """The trials of one protocol, as many as were asked for so far."""

    def __init__(self, number: int, option: plan.Option, inputs: Inputs, truth: float) -> None:
        self.number, self.name, self.protocol = number, option.name, option.protocol
        self.inputs, self.truth = inputs, truth
        self.errors: Floats = np.zeros(0)

    def run(self, trials: int) -> None:
        """Go on up to this number of trials."""
        work = batches(
            self.number,
            self.protocol,
            self.inputs,
            self.truth,
            trials=trials,
            seed=SEED,
            exact=False,
            begin=len(self.errors),
        )
        self.errors = np.concatenate([self.errors, *(trial(batch).errors for batch in work)])

    def finish(self) -> Finish:
        """The RMSE; its error follows from the spread of the squares themselves."""
        squares = self.errors**2
        doubt = float(squares.std() / squares.mean() / 2 / math.sqrt(len(squares)))
        return Finish(name=self.name, rmse=rmse(self.errors), doubt=doubt, trials=len(squares))


def race(cell: Cell) -> Race:
    """Let all protocols of a cell run."""
    workload = problems()[cell.problem]
    inputs = data(workload, cell.users)
    truth = workload.exact(inputs)
    options = plan.rank_protocols(workload, cell.epsilon, cell.users)
    runners = [Runner(number, option, inputs, truth) for number, option in enumerate(options)]
    for runner in runners:
        runner.run(PILOT)
    own = runners[options.index(plan.pick(options))]
    _run_on(cell, own, [runner for runner in runners if runner is not own])
    return Race(cell=cell, chosen=own.finish(), rivals=tuple(each.finish() for each in runners if each is not own))


def _run_on(cell: Cell, own: Runner, rivals: list[Runner]) -> None:
    """Double the trials of all who are not yet told apart from the choice; the choice keeps up with them."""
    trials = cell.trials
    own.run(trials)
    near = [runner for runner in rivals if not _told_apart(own, runner)]
    while near and trials <= MOST:
        for runner in (own, *near):
            runner.run(trials)
        near = [runner for runner in near if not _told_apart(own, runner)]
        trials *= 2


def _told_apart(own: Runner, rival: Runner) -> bool:
    """Whether the ratio is surely below its limit, or surely above."""
    one, other = own.finish(), rival.finish()
    limit = OF_BASELINES if rival.name in BASELINES else OF_ALL
    return abs(math.log(one.rmse / other.rmse / limit)) >= SURE * math.hypot(one.doubt, other.doubt)


def cells(trials: int) -> list[Cell]:
    """The whole grid."""
    return [
        Cell(problem=problem, epsilon=epsilon, users=users, trials=trials)
        for problem in problems()
        for epsilon in EPSILONS
        for users in USERS
    ]


def races(trials: int, processes: int | None, resume: Path | None) -> list[Race]:
    """All races in the order of the grid; those found in `resume` are over, and every other one is added to it."""
    grid = cells(trials)
    over = {found.cell: found for found in read(resume)}
    for found in spread(race, [cell for cell in grid if cell not in over], processes):
        over[found.cell] = found
        if resume is not None:
            with resume.open("a") as file:
                file.write(json.dumps(asdict(found)) + "\n")
    return [over[cell] for cell in grid]


def read(path: Path | None) -> Iterator[Race]:
    """The races of a file; none if there is no such file."""
    for line in path.read_text().splitlines() if path is not None and path.exists() else ():
        found = json.loads(line)
        yield Race(
            cell=Cell(**found["cell"]),
            chosen=Finish(**found["chosen"]),
            rivals=tuple(Finish(**each) for each in found["rivals"]),
        )


def render(found: list[Race]) -> str:
    """The table, and its worst rows in words."""
    headings = ("problem", "epsilon", "users", "auto", "RMSE", "over best other", "over best baseline", "trials")
    return table(headings, [_row(each) for each in found]) + "\n\n" + summary(found)


def _row(found: Race) -> list[str]:
    cell = found.cell
    return [
        cell.problem,
        f"{cell.epsilon:g}",
        f"{cell.users:,}",
        found.chosen.name,
        f"{found.chosen.rmse:.4g}",
        _ratio(found, found.closest()),
        _ratio(found, found.closest(BASELINES)),
        f"{found.chosen.trials:,}",
    ]


def _ratio(found: Race, rival: Finish) -> str:
    ratio, doubt = found.against(rival)
    return f"{ratio:.3f} ± {doubt:.3f} ({rival.name})"


def summary(found: list[Race]) -> str:
    """The worst ratio to the best of all and to the best baseline, and where."""
    worst = max(found, key=lambda each: each.against(each.closest())[0])
    beaten = max(found, key=lambda each: each.against(each.closest(BASELINES))[0])
    return (
        f"Over these {len(found)} problems the RMSE of `auto` is at most {_said(worst, worst.closest())} that of the "
        f"best other protocol, and at most {_said(beaten, beaten.closest(BASELINES))} that of the best other baseline."
    )


def _said(found: Race, rival: Finish) -> str:
    ratio, doubt = found.against(rival)
    cell = found.cell
    return f"{ratio:.3f} ± {doubt:.3f} times ({cell.problem}, eps {cell.epsilon:g}, {cell.users:,} users, {rival.name})"
