"""A plan as an object: every protocol with its predicted cost, and what limits them all."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any, overload

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Trust
from parley.emulator.randomizer import Floats
from parley.launch.results.display import html
from parley.launch.results.display.printable import fitted
from parley.protocols.planning.families.bins import BinPlan, plan_bins
from parley.protocols.planning.plan import AUTO, Bounds, Option, bounds, checked_histogram, rank_protocols
from parley.protocols.planning.plan import pick as pick_option
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.workloads.kendall import KendallTauB
from parley.protocols.workloads.workload import Levels, Workload

SHOWN = ("name", "rounds", "predicted_rmse", "bytes_up", "bytes_down")
# Bounds of errors, as a plan prints them; the others are about gamma_2.
LIMITS = ("limit", "floor", "lower_bound", "scale", "separation")
HEADINGS = ("protocol", "rounds", "RMSE", "worst RMSE", "B up", "B down")
LEAST_USERS, MOST_USERS = 2, 10**15
# From here on a person's own messages all but give the value away.
WEAK_EPSILON = 4.0


@dataclass(frozen=True, kw_only=True)
class Plan(Sequence[Option]):
    """Protocols for one problem, best first, and what no choice of protocol changes."""

    question: Workload | Levels
    users: int
    epsilon: float
    options: tuple[Option, ...]
    guess: Floats | None = field(default=None, repr=False, compare=False)
    bins: BinPlan | None = None
    assumed: str = ""
    """Which histogram the predictions are for."""

    @cached_property
    def limits(self) -> Bounds | None:
        """Computed when somebody looks: a search over many plans needs none of them."""
        return bounds(self.cells, self.epsilon, self.users, self.guess)

    @property
    def cells(self) -> Workload | Levels:
        """What the protocols are asked: the question, or the same about bins that the run finds."""
        return self.question if self.bins is None else self.options[0].protocol.inner.workload  # type: ignore[attr-defined]

    @overload
    def __getitem__(self, place: int) -> Option: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Option]: ...
    def __getitem__(self, place: int | slice) -> Option | Sequence[Option]:
        return self.options[place]

    def __len__(self) -> int:
        return len(self.options)

    def __iter__(self) -> Iterator[Option]:
        return iter(self.options)

    @property
    def best(self) -> Option:
        """What `auto` takes: of nearly equal protocols the one with fewer rounds and bytes."""
        if isinstance(self.question, Levels):
            return self.options[0]
        return pick_option(self.options, known=self.guess is not None)

    @property
    def title(self) -> str:
        return f"{self.question.name}, k = {self.question.size}, {self.users:,} users, epsilon {self.epsilon:g}"

    @property
    def recommended(self) -> str:
        """What to take, and what to expect of it, in words."""
        best = self.best
        rounds = "1 round" if best.rounds == 1 else f"{best.rounds} rounds"
        return (
            f"{best.name} in {rounds}: expect an error of about {best.predicted_rmse:.2g} (RMSE), "
            f"a 95% interval of about ±{1.96 * best.predicted_rmse:.2g}"
        )

    @property
    def notes(self) -> list[str]:
        """What a person should know besides the table, in lines that fit a terminal."""
        told = {
            "recommended": self.recommended,
            "assumed": self.assumed,
            f"epsilon {self.epsilon:g}": epsilon_means(self.epsilon),
            **({} if self.bins is None else {"bins": str(self.bins)}),
        }
        return [fitted(f"{name}: {text}") for name, text in told.items()]

    def record(self) -> dict[str, Any]:
        """Plain values, stable names: what `parley plan --json` prints."""
        limits = self.limits
        return {
            "statistic": None if isinstance(self.question, Levels) else self.question.name,
            "k": self.question.size,
            "users": self.users,
            "epsilon": self.epsilon,
            "gamma_2": None if limits is None else {"lower": limits.gamma_lower, "upper": limits.gamma_upper},
            **{name: getattr(limits, name, None) for name in LIMITS},
            "protocols": [{name: getattr(option, name) for name in SHOWN} for option in self.options],
            "recommended": self.best.name,
            "assumed": self.assumed,
            "epsilon_means": epsilon_means(self.epsilon),
            **({} if self.bins is None else {"bins": self.bins.record()}),
        }

    def table_rows(self) -> list[tuple[str, ...]]:
        """A row for each protocol, below `HEADINGS`."""
        return [
            (
                *(each.name, str(each.rounds), f"{each.predicted_rmse:.3g}", f"{each.worst_rmse:.3g}"),
                *(f"{each.bytes_up:.1f}", f"{each.bytes_down:.0f}"),
            )
            for each in self.options
        ]

    def __str__(self) -> str:
        rows = [HEADINGS, *self.table_rows()]
        widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS))]
        lines = [row[0].ljust(widths[0]) for row in rows]
        for place, width in enumerate(widths[1:], 1):
            lines = [f"{line}  {row[place]:>{width}}" for line, row in zip(lines, rows, strict=True)]
        return "\n".join([self.title, *lines, *self.notes])

    def _repr_html_(self) -> str:
        shown = html.table(HEADINGS, self.table_rows(), self.title)
        shown += "".join(f"<p>{escape(each)}</p>" for each in self.notes)
        return shown + html.bars({each.name: each.predicted_rmse for each in self.options}, "predicted RMSE")


@one_thread()
def make_plan(
    question: Workload | Levels,
    *,
    epsilon: float,
    users: int,
    protocol: str = "all",
    like: Floats | None = None,
    trust: Trust = "nobody",
    delta: float | None = None,
    bins: tuple[int, ...] | None = None,
) -> Plan:
    """Predict every protocol's cost; no private value plays a part in it.

    `bins`: how many bins to make of the question's fine levels, () for as many as are best.
    """
    if users < LEAST_USERS:
        raise BadInput(f"--users {users} cannot be used; give at least {LEAST_USERS}")
    if users > MOST_USERS:
        raise BadInput(f"--users {users} are more than a plan can be about; give at most {MOST_USERS}")
    if not isinstance(question, Levels) and (bins is not None or isinstance(question, KendallTauB)):
        return _binned_plan(question, bins, epsilon, users, protocol, like)
    guess = None if like is None else checked_histogram(question, like)
    names = None if protocol in (AUTO, "all") else protocol.split(",")
    options = rank_protocols(question, epsilon, users, guess, names, trust, delta)
    assumed = "the histogram that was given" if guess is not None else worst_of(question)
    found: dict[str, Any] = {"question": question, "users": users, "epsilon": epsilon, "guess": guess}
    return Plan(**found, options=tuple(options), assumed=assumed)


def worst_of(question: Workload | Levels) -> str:
    return f"nobody knows the histogram; the worst of these: {'; '.join(assumed_histograms(question))}"


def epsilon_means(epsilon: float) -> str:
    """What an epsilon means for one person, how usual it is, and a warning where it protects little."""
    # Who holds two values for equally likely is sure of one of them by at most e^eps / (1 + e^eps) afterwards.
    sure = 100 / (1 + math.exp(-epsilon))
    percent = f"{sure:.0f}%" if sure < 99 else "more than 99%"
    said = f"someone undecided between two values of a person can be {percent} sure afterwards, at most; "
    if epsilon < WEAK_EPSILON:
        return said + "usual values lie between 0.5 and 2"
    return said + f"warning: that protects little, and usual values lie between 0.5 and 2; stay below {WEAK_EPSILON:g}"


def _binned_plan(
    question: Workload, bins: tuple[int, ...] | None, epsilon: float, users: int, protocol: str, like: Floats | None
) -> Plan:
    if like is not None:
        raise BadInput("--like is a histogram of bins, and these bins are found in the run; leave out --like")
    names = None if protocol in (AUTO, "all", "binned") else protocol.split(",")
    levels = question.shape if bins is None else bins or None
    found = plan_bins(question, levels, epsilon=epsilon, users=users, names=names)
    planned = Plan(question=question, users=users, epsilon=epsilon, options=found.options, bins=found)
    return replace(planned, assumed=worst_of(planned.cells))
