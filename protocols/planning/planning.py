"""What can be said of a protocol's error: before the run, for a histogram or the worst one, and after it.

Each protocol that comes with Parley has a `Planning` (`table.py` lists them): how its parameters are chosen, the
predicted error of its form, the error as far as what was heard shows it, and where the error comes from. Nothing here
ever sees private data, except `realised_errors`, which an emulation asks for.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Estimate, Heard, Inputs, Protocol
from parley.emulator.randomizer import Floats
from parley.protocols.pairwise import Pairwise
from parley.protocols.workloads.workload import Levels, Workload

Kind = TypeVar("Kind", bound=Pairwise)
Sources = dict[str, float]
# The AUC assumes that neither label is rare; predictions that know nothing else take this share of positives.
BALANCED = 0.25


class Planning(Generic[Kind]):
    """The error of one protocol. Subclasses say what is theirs; this class turns forms into statistics."""

    def __init__(self, protocol: Kind) -> None:
        self.protocol = protocol

    @classmethod
    def design(cls, kind: type[Kind], workload: Workload, *, epsilon: float, users: int) -> Kind:
        """The protocol with everything chosen that a person did not choose, never from private data."""
        made: Kind = default_design(kind, workload, epsilon=epsilon, users=users)
        return made

    @property
    def planned_replies(self) -> tuple[int, ...]:
        """How many replies each round gets if all users stay."""
        return tuple(self.protocol.users for _ in self.protocol.script)

    def form_variance(self, replies: tuple[int, ...], histogram: Floats | None = None) -> float:
        """Predicted MSE of the form when so many users reply in each round: for this histogram, or for the worst."""
        raise BadInput(f"nobody has worked out the error of {self.protocol.name}; let it finish(..., variance=...)")

    def estimated_variance(self, heard: tuple[Heard, ...]) -> float:
        """The form's MSE as far as what was heard shows which histogram it is; here, that of the worst."""
        return self.form_variance(tuple(each.replies for each in heard))

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """Predicted RMSE of the statistic if all users stay; without a histogram, for the worst one."""
        replies = self.planned_replies
        form, means = self._worst() if histogram is None else self._known(histogram)
        slopes = self.slopes(form, means, self.protocol.users)
        return self._rmse(slopes, replies, self.form_variance(replies, histogram))

    def estimate(self, form: float, heard: tuple[Heard, ...], variance: float | None = None) -> Estimate:
        """The statistic from h'(W - cJ)h and the side queries; errors propagate through the value's gradient."""
        replies, means = tuple(each.replies for each in heard), self.side_means(heard[0])
        whole, users = form + self.protocol.workload.shift, self.users_of(replies)
        spread = self.estimated_variance(heard) if variance is None else variance
        rmse = self._rmse(self.slopes(whole, means, users), replies, spread)
        return Estimate.normal(self.value(whole, means, users), rmse, {"form": whole, **means})

    def users_of(self, replies: tuple[int, ...]) -> int:
        """Whose statistic it is: that of all users."""
        return self.protocol.users

    @property
    def pairs_alone(self) -> bool:
        """Whether the form is a mean over pairs of different users, which is the statistic; nothing else is needed."""
        return False

    def side_means(self, first: Heard) -> dict[str, float]:
        """What the statistic needs besides the form, as it was heard."""
        return {} if self.pairs_alone else {name: float(first.mean(name)) for name in self.protocol.side_queries}

    def side_variances(self, replies: int) -> dict[str, float]:
        queries = {} if self.pairs_alone else self.protocol.side_queries
        return {name: send.randomizer.variance / replies for name, send in queries.items()}

    def value(self, form: float, means: Mapping[str, float], users: int) -> float:
        return form if self.pairs_alone else self.protocol.workload.value(form, means, users)

    def slopes(self, form: float, means: Mapping[str, float], users: int) -> Mapping[str, float]:
        return {"form": 1.0} if self.pairs_alone else self.protocol.workload.gradient(form, means, users)

    def error_sources(self, heard: tuple[Heard, ...], rmse: float) -> Sources | None:
        """Variance of the estimate by source; None where nobody worked that out."""
        return None

    def realised_errors(self, heard: tuple[Heard, ...], inputs: Inputs) -> Sources | None:
        """Signed error of the estimate by source, from the inputs; None where nobody worked that out."""
        return None

    def _known(self, histogram: Floats) -> tuple[float, dict[str, float]]:
        workload = self.protocol.workload
        queries = workload.linear_queries()
        return workload.form(histogram), {name: float(query @ histogram) for name, query in queries.items()}

    def _worst(self) -> tuple[float, dict[str, float]]:
        """A ratio is as sensitive as the paper's balancedness allows: one positive in four, and an area of 1."""
        form, means = self._known(np.full(self.protocol.inputs, 1 / self.protocol.inputs))
        if not self.protocol.workload.labelled:
            return form, means
        return 2 * BALANCED * (1 - BALANCED), {**means, "positive": BALANCED}

    def _rmse(self, slopes: Mapping[str, float], replies: tuple[int, ...], form_variance: float) -> float:
        """Of a function of independent estimates, by its gradient."""
        variances = self.side_variances(replies[0])
        variances["form"] = form_variance + self.dropout_variance(replies)
        return math.sqrt(sum(slopes[name] ** 2 * variance for name, variance in variances.items()))

    def dropout_variance(self, replies: tuple[int, ...]) -> float:
        """At most what a random subset of the users adds: a form is a mean of (Wh)_x, twice over."""
        stayed = min(1.0, min(got / planned for got, planned in zip(replies, self.planned_replies, strict=True)))
        low, high = self.protocol.workload.bounds
        return (high - low) ** 2 / self.protocol.users * (1 / stayed - 1)


def differences(names: Iterable[str], values: list[float]) -> Sources:
    """What each step from one value to the next is due to."""
    return {name: after - before for name, (before, after) in zip(names, pairwise(values), strict=True)}


def default_design(kind: type[Protocol], problem: Workload | Levels, *, epsilon: float, users: int) -> Any:
    """A protocol whose fields are among the problem's own: workload, inputs, epsilon, users."""
    known = {"workload": problem, "inputs": problem.size, "epsilon": epsilon, "users": users}
    names = {each.name: each for each in fields(kind) if each.init}  # type: ignore[arg-type]
    for name, each in names.items():
        if name not in known and each.default is MISSING and each.default_factory is MISSING:
            raise BadInput(f"nobody knows {name} of {kind.name}; give it a default, or the class a method `design`")
    return kind(**{name: value for name, value in known.items() if name in names})


def public_guesses(workload: Workload | Levels) -> list[Floats]:
    """Gently rising shares, and a bump in the middle.

    Equal shares would be a bad guess: there the diversity index has no slope, and one-round protocols shine.
    """
    places = (np.arange(workload.size) + 0.5) / workload.size
    shapes = [1 + 2 * places, np.exp(-((places - 0.5) ** 2) * 18)]
    return [shape / shape.sum() for shape in shapes]


def assumed_histograms(workload: Workload | Levels) -> dict[str, Floats]:
    """What a plan assumes where nobody gives a guess, in words: predictions are for the worst of these."""
    words = ("shares that rise threefold over the inputs", "a bump in the middle")
    guesses = dict(zip(words, public_guesses(workload), strict=True))
    return guesses if isinstance(workload, Levels) else guesses | workload.guesses()
