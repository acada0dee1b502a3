"""The black-box reduction to linear queries (overview, "Black-Box Reduction to Linear Queries (Algorithm)").

Round one: any linear-queries protocol, with eps/2, gives answers z^ near W h; the analyst broadcasts them. Round two:
each user sends its own answer z^_x + kappa with eps/2; the mean is the estimate.

The paper leaves to the reader that an answer need not be bounded: |W h| <= |W|, so the analyst moves every answer into
[-|W|, |W|], which brings none of them farther from the truth, and a user refuses answers that lie outside.

Moving answers makes the estimate biased: where an answer is near +-|W|, noise beyond it is cut off on one side only,
by 0.4 standard deviations of the answer at most. The predicted error counts the bias; the interval is wider by it.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Send, Sends, require, sends
from parley.emulator.randomizer import Floats
from parley.protocols.pairwise import Pairwise
from parley.protocols.paper.linear_queries import MatrixMechanism
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace

# A user's own product of two float64 vectors may differ from the analyst's by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class TwoRoundBlackBox(Pairwise):
    """Linear queries, then everybody's own answer.

    Formal guarantee: eps-LDP against any analyst. The oracle's reply is eps/2 by its own claim; the second is a scalar
    with Laplace noise for the range [-|W|, |W|], and a user refuses to answer when the broadcast leaves it.
    """

    name: ClassVar[str] = "two-round-black-box"
    summary: ClassVar[str] = "Any linear-queries protocol, then each user's own answer + kappa; eps/2 each"

    oracle: MatrixMechanism = field(repr=False)
    # Whether the interval knows what clipping does; older records do not say so, and theirs does not.
    clipping: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.oracle.workload != self.workload:
            raise BadInput("the linear-queries protocol of the first round answers for another matrix")

    @property
    def norm(self) -> float:
        return self.workload.infinity_norm

    @property
    def laplace(self) -> GridLaplace:
        """kappa, with half of what the form may spend."""
        return GridLaplace(low=-self.norm, high=self.norm, epsilon=self.form_epsilon / 2)

    @sends
    def linear_queries(self) -> Sends:
        """Each user answers the oracle's question, and what the statistic needs besides the form."""
        return {**self.oracle.ask(), **self.side_queries}

    @sends(answers="inputs")
    def own_answers(self, answers: Floats) -> Sends:
        """Each user sends z^_x + kappa, if no answer lies beyond |W|."""
        require(np.abs(answers).max() <= self.norm * (1 + ROUNDING), "an answer lies beyond |W|")
        return {"own": Send(self.laplace, answers)}

    script = (linear_queries, own_answers)

    def analyst(self) -> Analyst:
        """The oracle's analyst, clipping, and a mean."""
        answers, one = yield from self.oracle.answers(Ask(self.linear_queries))
        two = yield Ask(self.own_answers, answers=np.clip(answers, -self.norm, self.norm))
        return self.finish(two.mean("own") - self.workload.shift, one, two)
