"""Two rounds near the limit (mathematics.md): an index from some users, then the best scalar from the others.

The first users' indices give h^, a rough histogram. For the others the statistic is nearly linear around h^: each of
them sends its derivative g(x), through the eps-LDP table that is best when g is distributed as h^ says.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Chosen, Numbers, Send, Sends, require, sends
from parley.emulator.randomizer import Array, Integers
from parley.emulator.wire.messages import Users
from parley.protocols.randomizers.channels.channel import Channel, check_table
from parley.protocols.randomizers.channels.scalar_table import BITS, FRACTION, OUTPUTS, ROWS, mixed
from parley.protocols.tuned.codebook_round import CodebookRound
from parley.protocols.tuned.groups import groups_of

LEAST_SHARE, MOST_SHARE = 1e-3, 1 - 1e-3


@dataclass(frozen=True, kw_only=True)
class TwoRoundTuned(CodebookRound):
    """A share of the users sends an index at once, the others one output of a table each afterwards.

    Formal guarantee: eps-LDP against any analyst. A user speaks once: through a codebook, or through a table whose
    ratios it checks in whole numbers before it uses it; that of the first round stands in the setup.
    """

    name: ClassVar[str] = "two-round-tuned"
    version: ClassVar[int] = 2
    summary: ClassVar[str] = "An index from some users, then one output of the best table for a scalar from the others"

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
        table=Numbers((ROWS, OUTPUTS), like=2**BITS // OUTPUTS, dtype=np.uint32),
        position=Numbers(("inputs",), dtype=np.uint32),
        values=OUTPUTS,
    )
    def one_output(self, table: Array, position: Array, values: Array) -> Sends:
        """Each other user draws an output of a table of whole numbers, at its input's place between two of the rows.

        `values` is what outputs are worth to the analyst; users do not need it.
        """
        require(position.max() <= (ROWS - 1) << FRACTION, "an input's position lies beyond the last row of the table")
        rows = table.astype(np.int64)
        check_table(rows, self.epsilon)
        weights = mixed(rows, position.astype(np.int64))
        every: Array = np.arange(self.inputs)
        return {"scalar": Send(Channel(weights=weights, epsilon=self.epsilon), every)}

    script = (one_index, one_output)

    def analyst(self) -> Analyst:
        """h^ and t1 from the counts; t2 from the scalars; their weighted mean."""
        one = yield Ask(self.one_index)
        first = self.read(one)
        point = self.objective.at(first.histogram)
        two = yield Ask(self.one_output, **{name: Chosen(array) for name, array in self.table(point).items()})
        return self.planning.two_rounds(first, point, two)  # type: ignore[no-any-return]

    def table(self, point: Any) -> dict[str, Array]:
        """The best table for g at h^, whose rows the solver chooses, and every input's place in it."""
        from parley.protocols.tuned.scalar_question import scalar_question

        return scalar_question(point, self.epsilon).broadcast
