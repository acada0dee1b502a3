"""Bins at quantiles, found privately: a first round about the margins, then any protocol of ranks on the cells.

    margins     a small share of the users says where its values lie among the fine levels      eps, once
    borders     the analyst puts the borders of bins where they hold equal shares, and broadcasts them
    rounds      of the inner protocol, answered by all other users on the cells of their inputs  eps, as it claims

Users consent to the fine levels. Cells are a public coarsening of them: whatever borders the analyst names, a user's
reply is the inner protocol's for some input, so the inner protocol's claim holds. For Kendall's tau-b the shares of
untied pairs come from the same margins.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.parameters import NAMED
from parley.emulator.protocol import (
    Analyst,
    Ask,
    Broadcast,
    Heard,
    Inputs,
    Method,
    Numbers,
    Question,
    Send,
    Sends,
    sends,
)
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.round import BLOCK_USERS, Round, Through
from parley.emulator.wire.messages import Users
from parley.protocols.bins.borders import Bins, quantile_borders
from parley.protocols.bins.margins import Margins
from parley.protocols.limits import check_users, mapping
from parley.protocols.pairwise import Pairwise
from parley.protocols.planned import Planned
from parley.protocols.randomizers.exact import check_count
from parley.protocols.tuned.groups import LARGEST_SALT, groups_of
from parley.protocols.workloads.workload import LABELLED, Workload, check_level, count_inputs

LEAST_SHARE, MOST_SHARE = 1e-3, 0.5
MOST_FINE = 4096
BORDERS = "borders"
INNER = (
    *("two-round-tuned", "one-round-tuned", "one-round", "two-round", "two-round-black-box", "three-round"),
    *("frequency-grr", "frequency-oue", "frequency-subset", "hierarchical"),
)


class _Kinds(Mapping[str, type[Pairwise]]):
    """Protocols of ranks by name, each loaded when it is asked for: a user's node carries only its own."""

    def __getitem__(self, name: str) -> type[Pairwise]:
        if name not in INNER:
            raise KeyError(name)
        from parley.protocols.registry import lookup

        return lookup(name)

    def __iter__(self) -> Iterator[str]:
        return iter(INNER)

    def __len__(self) -> int:
        return len(INNER)


@dataclass(frozen=True, kw_only=True)
class Binned(Planned):
    """A protocol of ranks on bins that follow the data.

    Formal guarantee: eps-LDP against any analyst. A user speaks either about the margins, once, through subset
    selection with all of eps, or in the inner protocol, on a public function of its input.
    """

    name: ClassVar[str] = "binned"
    summary: ClassVar[str] = "Bins at private quantiles from a few users, then any protocol of ranks on them"
    # Nothing is as long as the inputs are many, so their number is limited by the columns alone.
    acts_on_cells: ClassVar[bool] = True

    statistic: str
    fine: tuple[int, ...]
    share: float
    users: int
    salt: int = 0
    inner: Pairwise = field(repr=False, metadata={NAMED: _Kinds()})

    def __post_init__(self) -> None:
        check_users(self.users)
        check_count("salt", self.salt, 0, LARGEST_SALT)
        if not LEAST_SHARE <= self.share <= MOST_SHARE:
            raise BadInput(f"share is {self.share}; give a number from {LEAST_SHARE:g} to {MOST_SHARE:g}")
        inner = self.inner.workload
        if MEASURED_BY.get(self.statistic) != inner.name:
            known = ", ".join(MEASURED_BY)
            raise BadInput(f"{self.statistic!r:.80} cannot be measured in bins at quantiles; known are {known}")
        if len(self.fine) != len(self.levels):
            raise BadInput(f"{len(self.fine)} columns of fine levels do not fit the {len(self.levels)} of {inner.name}")
        for fine, levels in zip(self.fine, self.levels, strict=True):
            if check_level("fine levels", fine) > MOST_FINE or levels > fine:
                raise BadInput(f"a column cannot have {fine} fine levels; give from {levels} to {MOST_FINE}")

    @classmethod
    def inputs_of(cls, parameters: Mapping[str, Any]) -> int:
        """k of a Setup's parameters: the product of the fine levels."""
        fine = parameters.get("fine")
        if not isinstance(fine, list | tuple) or not 1 <= len(fine) <= 2:
            raise BadInput(f"fine levels should be one or two numbers, got {fine!r:.80}")
        Pairwise.inputs_of(mapping(mapping(parameters, "inner"), "parameters"))
        return math.prod(check_level("fine levels", each) for each in fine)

    @property
    def epsilon(self) -> float:
        return self.inner.epsilon

    @property
    def inputs(self) -> int:
        return math.prod(self.fine)

    @property
    def column_levels(self) -> tuple[int, ...]:
        return self.fine

    @property
    def levels(self) -> tuple[int, ...]:
        """The bins of each column."""
        return self.inner.workload.shape

    @cached_property
    def workload(self) -> Workload:
        """The statistic of the fine levels: what a user would like to know."""
        return workload_of(self.statistic, self.fine)

    @property
    def border_count(self) -> int:
        return sum(levels - 1 for levels in self.levels)

    @property
    def groups(self) -> int:
        return 1 + self.inner.groups

    def group_of(self, users: Users) -> Integers:
        """0 for those who are asked about the margins; the others' are those of the inner protocol."""
        asked_about_margins = groups_of(users, self.salt, self.share) == 0
        return np.where(asked_about_margins, 0, 1 + self.inner.group_of(users))

    def participates(self, number: int, group: int) -> bool:
        return group == 0 if number == 1 else group > 0 and self.inner.participates(number - 1, group - 1)

    def salted(self, salt: int) -> "Binned":
        """The same with other public coins. The two splits need coins of their own: one would follow the other."""
        from parley.protocols.tuned.groups import salted

        inner: Any = salted(self.inner, salt ^ 1)
        return replace(self, salt=salt, inner=inner)

    @cached_property
    def question(self) -> Margins:
        return Margins(self.fine)

    @sends
    def margins(self) -> Sends:
        """A few users each draw a cut of a column into nodes and send their node there, through subset selection."""
        return {"node": Send(self.question.selection(self.epsilon), self.question)}

    @property
    def script(self) -> tuple[Method, ...]:  # type: ignore[override]
        return (type(self).margins, *self.inner.script)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        return (Round(self, 1, type(self).margins), *(CellRound(self, step) for step in self.inner.rounds))

    def bins(self, borders: Integers) -> Bins:
        return Bins.of(self.fine, self.levels, borders)

    def representatives(self, broadcasts: Mapping[int, list[Broadcast]]) -> Inputs:
        """Those of the margins, and an input for every cell of every border that was ever named."""
        named = [each[BORDERS] for number, said in broadcasts.items() if number > 1 for each in said]
        cuts = [set[int]() for _ in self.fine]
        for borders in named:
            for own, found in zip(cuts, self.bins(borders).borders, strict=True):
                own.update(found.tolist())
        parts = tuple(np.array(sorted(own), dtype=np.int64) for own in cuts)
        merged = Bins(self.fine, tuple(len(part) + 1 for part in parts), parts)
        return np.unique(np.concatenate([self.question.representatives, merged.representatives]))

    def analyst(self) -> Analyst:
        """Borders from the margins, then the inner protocol's analyst, who hears of cells alone."""
        one = yield Ask(self.margins)
        read = self.question.read(self.question.selection(self.epsilon), one.sum("node"))
        borders = np.concatenate(list(map(quantile_borders, read.shares, self.levels)))
        inner: Any = self.inner.analyst()
        heard: Heard | None = None
        for step in self.rounds[1:]:
            ask = copy.copy(inner.send(heard))
            ask.broadcast, ask.chosen = {**ask.broadcast, BORDERS: borders}, ask.chosen | {BORDERS}
            said = yield ask
            borders, heard = said.asked[BORDERS], step.beneath(said)  # type: ignore[attr-defined]
        try:
            inner.send(heard)
        except StopIteration as stop:
            return self.planning.finish(stop.value, read, self.bins(borders))  # type: ignore[no-any-return]
        raise BadInput(f"{self.inner.name} asks more than its {len(self.inner.rounds)} rounds")

    def truth(self, inputs: Inputs) -> float:
        """The statistic in bins at the quantiles of these very inputs; a run's own bins are on its record."""
        return self.binned_truth(inputs, self.quantiles(count_inputs(inputs, self.inputs)))

    def binned_truth(self, inputs: Inputs, bins: Bins) -> float:
        """The statistic in these bins, without noise."""
        cells = np.empty(len(inputs), np.min_scalar_type(self.inner.inputs - 1))
        for start in range(0, len(inputs), BLOCK_USERS):
            block = slice(start, start + BLOCK_USERS)
            cells[block] = bins.cells(inputs[block])
        return workload_of(self.statistic, self.levels).exact(cells)

    def quantiles(self, counts: Integers | Floats) -> Bins:
        """Bins at the quantiles of a histogram of the inputs."""
        grid, columns = np.asarray(counts, dtype=np.float64).reshape(self.fine), range(len(self.fine))
        margins = [grid.sum(axis=tuple(each for each in columns if each != own)) for own in columns]
        borders = [quantile_borders(own, bins) for own, bins in zip(margins, self.levels, strict=True)]
        return Bins(self.fine, self.levels, tuple(borders))


class CellRound(Round):
    """A round of the inner protocol, asked about cells: its broadcast has the borders of bins besides."""

    def __init__(self, protocol: Binned, inner: Round) -> None:
        # The method is the inner round's, which is not the protocol's own.
        super().__init__(protocol, inner.number + 1, type(protocol).margins)
        self.inner = inner
        borders = Numbers((protocol.border_count,), dtype=np.uint32)
        asked = inner.question
        self.question = Question(asked.name, {**asked.arrays, BORDERS: borders}, asked.summary)
        self.name = asked.name
        self._method: Callable[..., Sends] = self._through

    def _length(self, length: int | str) -> int:
        return length if isinstance(length, int) else int(getattr(self.inner.protocol, length))

    @cached_property
    def usual(self) -> Sends:
        """After the inner round's example, with the first borders there are."""
        like = {name: each.like for name, each in self.inner.question.arrays.items()}
        example = {name: np.full(shape, like[name], dtype) for name, (dtype, shape) in self.inner.broadcast.items()}
        protocol = self.protocol
        assert isinstance(protocol, Binned)
        first = np.concatenate([np.arange(1, levels) for levels in protocol.levels])
        return self._ask({**example, BORDERS: first.astype(np.uint32)})

    def _through(self, borders: Integers, **asked: Any) -> Sends:
        protocol = self.protocol
        assert isinstance(protocol, Binned)
        bins = protocol.bins(borders)
        sent = self.inner._method(**asked)
        return {
            name: Send(send.randomizer, Through(send, self.inputs, bins.cells), send.tallies, send.given)
            for name, send in sent.items()
        }

    def beneath(self, heard: Heard) -> Heard:
        """What the inner protocol's analyst hears."""
        asked = {name: array for name, array in heard.asked.items() if name != BORDERS}
        return Heard(asked, self.inner.sends(asked), heard.tally)


# Statistic of the columns -> the workload that the inner protocol measures on cells.
MEASURED_BY = {"kendall": "kendall", "kendall-b": "kendall", "auc": "auc"}


def check_ranks(statistic: str | None) -> None:
    """Bins of unequal width keep ranks and nothing else: a statistic of distances would weigh them wrongly."""
    if statistic not in MEASURED_BY:
        said = "a kernel" if statistic is None else statistic
        raise BadInput(f"{said} measures distances or equality, which only bins of equal width keep; use --bins equal")


def workload_of(statistic: str, levels: tuple[int, ...]) -> Workload:
    """The statistic on so many levels of each column."""
    # A label has its two levels anyway.
    given = levels[0] if statistic in LABELLED else levels
    return Workload.from_parameters({"statistic": statistic, "levels": given})
