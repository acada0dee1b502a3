"""The round in which users tell where they stand (the paper's VRand of A e_x), tallied by folds."""

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parley.emulator.protocol import Broadcast, Inputs
from parley.emulator.randomizer import Columns, Floats, Integers, Shape
from parley.emulator.tally import Tally
from parley.emulator.wire.messages import Users
from parley.protocols.legacy_rounds import ComposedRound, Part
from parley.protocols.tuned.groups import members

if TYPE_CHECKING:
    from parley.protocols.tuned.split_users import Tuned


class Vectors(ComposedRound):
    """Each user of the group sends A 1_x, or x, through the encoding's randomizer.

    A reply's fold is read off its seed, which is uniform and independent of the input: nothing but the seed and the
    choice travels, and the analyst keeps one sum a fold.
    """

    name = "vectors"

    def __init__(self, protocol: "Tuned", group: int) -> None:
        self.protocol = protocol
        self.group = group
        self.encoding = protocol.encoding_of(group)

    @property
    def inputs(self) -> int:
        return self.protocol.inputs

    @property
    def broadcast(self) -> Shape:
        return {}

    @property
    def folds(self) -> int:
        return self.protocol.folds // self.protocol.vector_rounds

    def participates(self, users: Users) -> NDArray[np.bool_]:
        if self.protocol.split == "budget":
            return super().participates(users)
        return members(users, self.protocol.salt, self.protocol.shares, self.group)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        return (Part(name="vector", randomizer=self.encoding.randomizer),)

    def functions(self, public: Broadcast, inputs: Inputs) -> dict[str, Floats]:
        return {"vector": self.encoding.values(inputs)}

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        """The sums of the folds, (folds, length), and how many replies each fold has."""
        fold = (replies["vector.seed"].astype(np.uint64) >> np.uint64(48)).astype(np.int64) * self.folds >> 16
        own = [self._own(self.parts[0], {n: c[fold == each] for n, c in replies.items()}) for each in range(self.folds)]
        sums = np.stack([self.parts[0].randomizer.total(each) for each in own])
        return Tally(len(fold), {"vector": sums, "size": np.bincount(fold, minlength=self.folds).astype(np.int64)})

    def fold_means(self, tally: Tally) -> tuple[Floats, Integers]:
        """The mean reply of each fold and its size."""
        sizes = tally.sums["size"]
        return self.encoding.mean(tally.sums["vector"], sizes), sizes
