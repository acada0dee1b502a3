"""AUC (paper, "Upper Bounds for Specific Metrics"): Kendall's kernel with labels {0, 1}, renormalised by n+ n-.

Input (score level s, label y) has the index 2 s + y. With p = n+/n and W = S_m (x) S_2 the area is
P[positive scores above negative] + P[tie]/2 = 1/2 + h'Wh / (4 p (1 - p)): each pair of opposite labels enters
h'Wh twice, once in each order. The paper spends part of the budget on n+; here that is the linear query
"positive".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.kendall import Kendall, SignProduct
from parley.protocols.workloads.workload import Kind, at_least_two, check_level


@dataclass(frozen=True, kw_only=True)
class AreaUnderCurve(SignProduct):
    """Area under the ROC curve of a score with m levels against a label 0 or 1."""

    name: ClassVar[str] = "auc"
    kind: ClassVar[Kind] = "kendall"
    levels: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_level("the number of inputs of auc", 2 * self.levels)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.levels, 2

    def linear_queries(self) -> dict[str, Floats]:
        """The label: its mean is p, the share of positives."""
        return {"positive": self.labels}

    @property
    def numerator(self) -> Kendall:
        return Kendall(levels=(self.levels, 2))

    def guesses(self) -> dict[str, Floats]:
        """The area's error grows as a label becomes rare: equal labels would make it look twice as good as it is."""
        scores = np.arange(self.levels)
        negative, positive = 0.75 * (self.levels - scores), 0.25 * (scores + 1.0)
        shares = np.stack([negative, positive], axis=1).reshape(-1) * 2 / (self.levels * (self.levels + 1))
        return {"one positive in four, likelier the higher the score": np.asarray(shares)}

    def value(self, form: float, means: Mapping[str, float], users: int) -> float:
        """The area from the form and an estimate of p, moved into [1/n, 1 - 1/n]: outside no area is defined."""
        share = self._share(means, users)
        return 0.5 + form / (4 * share * (1 - share))

    def gradient(self, form: float, means: Mapping[str, float], users: int) -> dict[str, float]:
        share = self._share(means, users)
        spread = share * (1 - share)
        return {"form": 1 / (4 * spread), "positive": -form * (1 - 2 * share) / (4 * spread * spread)}

    def exact(self, inputs: Inputs) -> float:
        counts: Any = self.counts(inputs)
        negatives, positives = (int(count) for count in counts.reshape(-1, 2).sum(axis=0))
        if not positives or not negatives:
            raise BadInput(f"AUC needs both labels, got {positives} positives and {negatives} negatives")
        numerator = int(counts @ self.apply(counts))
        return 0.5 + numerator / (4 * positives * negatives)

    def _share(self, means: Mapping[str, float], users: int) -> float:
        at_least_two(users)
        return min(max(means["positive"], 1 / users), 1 - 1 / users)
