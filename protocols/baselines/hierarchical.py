"""The AUC by a hierarchical histogram (Bell et al. 2020, Section 5; Cormode and Markov 2022), a baseline.

A binary tree over the score levels. Two scores differ first at one level of the tree, where they lie in sibling
nodes, so sgn(s - t) is the sum over levels of the sign between siblings. Each user draws a level and sends its node
there together with its label, through subset selection with the whole budget. Each level's form is the debiased
mean over pairs of its own users.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analyst, Ask, Heard, Send, Sends, sends
from parley.emulator.randomizer import Floats, Integers
from parley.emulator.round import Tally
from parley.protocols.baselines.frequency import FrequencySubset
from parley.protocols.pairwise import Pairwise
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from parley.protocols.workloads.kernel import Kernel

LARGEST_LEVELS = 1024


@dataclass(frozen=True, kw_only=True)
class Hierarchical(Pairwise):
    """One node of one level of the tree, with the label.

    Formal guarantee: eps-LDP. The level does not depend on the input, and the reply at that level is one subset by
    subset selection with all of eps.
    """

    name: ClassVar[str] = "hierarchical"
    summary: ClassVar[str] = "Baseline for the AUC: hierarchical histogram of scores by label, one level per user"

    # Whether the interval knows the error of the whole ratio, and what is estimated stays within [0, 1]; older records
    # do not say so.
    cautious: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.workload.labelled:
            raise BadInput(f"hierarchical is for the AUC, not for {self.workload.name}")
        if self.inputs > 2 * LARGEST_LEVELS:
            raise BadInput(f"{self.inputs // 2} score levels are more than the limit of {LARGEST_LEVELS}")

    @property
    def depth(self) -> int:
        """Levels of the tree below its root."""
        return (self.inputs // 2 - 1).bit_length()

    @cached_property
    def nodes(self) -> Integers:
        """The category 2 * node + label of each input at every level, a column for each level."""
        scores, labels = np.divmod(np.arange(self.inputs), 2)
        levels = range(1, self.depth + 1)
        return np.stack([2 * (scores >> (self.depth - level)) + labels for level in levels], axis=1)

    @cached_property
    def selection(self) -> LevelledSelection:
        """A level has 2^level nodes, and two labels."""
        sizes = tuple(2 << level for level in range(1, self.depth + 1))
        return LevelledSelection(categories=sizes, epsilon=self.epsilon)

    @sends
    def node(self) -> Sends:
        """Each user draws a level and sends its node there, with its label, through subset selection."""
        return {"node": Send(self.selection, self.nodes)}

    script = (node,)

    def analyst(self) -> Analyst:
        """One question, one form for each level."""
        heard = yield Ask(self.node)
        return self.finish(self.form(heard), heard)

    def form(self, heard: Heard) -> float:
        """The sum of the levels' forms; of all pairs, a share 1/n is of users with themselves and adds nothing."""
        pairs = sum(level.form(part) for level, part in self.at_levels(heard) if part.tally.replies)
        return float(pairs) * (1 - 1 / max(2, heard.tally.replies))

    @cached_property
    def levels(self) -> tuple[FrequencySubset, ...]:
        """For every level, the histogram of its categories and the form of siblings with opposite labels."""
        users = max(2, self.users // self.depth)
        return tuple(
            FrequencySubset(workload=Kernel(siblings(1 << level)), epsilon=self.epsilon, users=users)
            for level in range(1, self.depth + 1)
        )

    def at_levels(self, heard: Heard) -> list[tuple[FrequencySubset, Heard]]:
        """Every level with what was heard at it."""
        found = zip(self.levels, self.selection.at_levels(heard.sum("node")), strict=True)
        return [
            (level, Heard({}, level.category(), Tally(replies, {"category": counts})))
            for level, (replies, counts) in found
        ]


def siblings(nodes: int) -> Floats:
    """sgn between siblings times sgn between labels, on the categories 2 * node + label."""
    node, label = np.divmod(np.arange(2 * nodes), 2)
    near = (node[:, None] ^ 1) == node[None, :]
    return np.asarray(near * np.sign(node[None, :] - node[:, None]) * np.sign(label[None, :] - label[:, None]), float)
