"""Two rounds near the limit (mathematics.md): an index from some users, then what is best to ask the others.

The first users' indices give h^, a rough histogram. For the others the statistic is nearly linear around h^: each of
them sends its derivative g(x), through the eps-LDP table that is best when g is distributed as h^ says. Where g says
little, because it is nearly constant or h^ too rough, the others are asked for an index as well.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Chosen, Numbers, Send, Sends, require, sends
from parley.emulator.randomizer import Array, Columns, Integers
from parley.emulator.wire.messages import Users
from parley.protocols.randomizers.channels.channel import check_table
from parley.protocols.randomizers.channels.folded_channel import FoldedChannel
from parley.protocols.randomizers.channels.scalar_table import BITS, FRACTION, OUTPUTS, ROWS, mixed
from parley.protocols.tuned.codebook_round import CodebookRound
from parley.protocols.tuned.groups import groups_of

LEAST_SHARE, MOST_SHARE = 1e-3, 1 - 1e-3


@dataclass(frozen=True, kw_only=True)
class TwoRoundTuned(CodebookRound):
    """A share of the users sends an index at once, the others one output of a table, or an index, afterwards.

    Formal guarantee: eps-LDP against any analyst. A user speaks once: through a codebook, or through a table whose
    ratios it checks in whole numbers before it uses it; that of the first round stands in the setup. Which of the two
    the second round is follows from the replies to the first alone; either spends epsilon.
    """

    name: ClassVar[str] = "two-round-tuned"
    version: ClassVar[int] = 3
    summary: ClassVar[str] = "An index from some users, then the best scalar from the others, or again an index"

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not LEAST_SHARE <= self.share <= MOST_SHARE:
            raise BadInput(f"share is {self.share}; give a number from {LEAST_SHARE:g} to {MOST_SHARE:g}")

    @property
    def groups(self) -> int:
        return 2

    def group_of(self, users: Users) -> Integers:
        return groups_of(users, self.salt, self.share)

    def participates(self, number: int, group: int) -> bool:
        return number == group + 1

    @sends
    def one_index(self) -> Sends:
        """Each user of the first group sends one of its seed's candidates, likelier one that its input favours."""
        return {"candidate": self.index}

    @sends(
        again=Numbers(dtype=np.uint32),
        table=Numbers((ROWS, OUTPUTS), like=2**BITS // OUTPUTS, dtype=np.uint32),
        position=Numbers(("inputs",), dtype=np.uint32),
        values=OUTPUTS,
    )
    def one_output(self, again: int, table: Array, position: Array, values: Array) -> Sends:
        """Each other user draws an output of a table of whole numbers, at its input's place between two of the rows.

        If `again` is 1, it sends an index as in the first round instead. `values` is what outputs are worth to the
        analyst; users do not need it.
        """
        require(again <= 1, "again is neither 0 nor 1")
        if again:
            return {"answer": self.index}
        require(position.max() <= (ROWS - 1) << FRACTION, "an input's position lies beyond the last row of the table")
        rows = table.astype(np.int64)
        check_table(rows, self.epsilon)
        weights = mixed(rows, position.astype(np.int64))
        every: Array = np.arange(self.inputs)
        (column,) = self.codebook.reply
        scalar = FoldedChannel(weights=weights, epsilon=self.epsilon, folds=1, column=column)
        return {"answer": Send(scalar, every, given=_one_place)}

    script = (one_index, one_output)

    def analyst(self) -> Analyst:
        """h^ and t1 from the counts; t2 from the scalars; their weighted mean. Or t1 from everybody's counts."""
        one = yield Ask(self.one_index)
        first = self.read(one.sum("candidate"))
        point = self.objective.at(first.histogram)
        question = self.question(point)
        again = self.planning.is_better_again(first, point, question)
        two = yield Ask(self.one_output, again=Chosen(again), **question.broadcast)
        if two.asked["again"]:
            return self.planning.one_round(self.read(one.sum("candidate") + two.sum("answer")))  # type: ignore[no-any-return]
        return self.planning.two_rounds(first, point, two)  # type: ignore[no-any-return]

    def question(self, point: Any) -> Any:
        """The best table for g at h^, and every input's place in it."""
        from parley.protocols.tuned.scalar_question import scalar_question

        return scalar_question(point, self.epsilon)


def _one_place(users: Users) -> Columns:
    """Scalars are counted together; the replies to either question have the same columns."""
    return {"place": np.zeros(len(users), dtype=np.uint16)}
