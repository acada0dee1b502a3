"""An explicit channel whose replies are counted fold by fold; a user's fold is public, as is its seed in a codebook."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, Shape
from parley.protocols.randomizers.channels.channel import Channel
from parley.protocols.randomizers.channels.codebook_seeds import Real
from parley.protocols.randomizers.exact import check_count

# Any larger prime would do as long as products of two remainders fit into 63 bits.
PRIME = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class FoldedChannel(Channel):
    """Draw the output of the input's row; the place of a user is its fold.

    Formal guarantee: that of `Channel`. The fold follows from the user's number, and no probability depends on it.
    """

    folds: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("folds", self.folds, 1, 1 << 16)

    @property
    def places(self) -> int:
        return self.folds

    @property
    def seeds(self) -> int:
        """As a codebook it has one seed, and outputs are its candidates."""
        return 1

    @property
    def public(self) -> Shape:
        return {"place": (np.dtype(np.uint16), ())}

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        """Rows of `inputs` are an input and a place."""
        if inputs.ndim != 2 or inputs.shape[1] != 2:
            raise BadInput(f"inputs have shape {inputs.shape}; give an input and a place per user")
        if not ((inputs[:, 1] >= 0) & (inputs[:, 1] < self.places)).all():
            raise BadInput(f"places must lie in 0 .. {self.places - 1}")
        return super().sample(inputs[:, 0], coins)

    def every_reply(self) -> Columns | None:
        """One list would have to serve all folds."""
        return self.in_cells(np.flatnonzero(self.used)) if self.folds == 1 else None

    @property
    def cells(self) -> int:
        """One for each output: what it says does not depend on the fold."""
        return self.outputs

    def cell(self, reply: Columns) -> Integers:
        return reply[self.column].astype(np.int64)

    def in_cells(self, cells: Integers) -> Columns:
        return {"place": np.zeros(len(cells), dtype=np.uint16), self.column: cells.astype(self.reply[self.column][0])}

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        return super().log_likelihood(reply, inputs if inputs.ndim == 1 else inputs[:, 0])

    def likelihood(self, precision: type[Real]) -> NDArray[Real]:
        """P(output | x): outputs x inputs."""
        return self.probabilities.T.astype(precision)

    def decode(self, reply: Columns) -> Floats:
        """What a reply adds to the counts."""
        rows = np.zeros((len(reply[self.column]), self.folds * self.outputs))
        rows[np.arange(len(rows)), self._counts(reply)] = 1.0
        return rows.reshape(len(rows), self.folds, self.outputs)

    def total(self, reply: Columns) -> Integers:
        """How often each output was sent: (folds, outputs)."""
        counts = np.bincount(self._counts(reply), minlength=self.folds * self.outputs)
        return counts.reshape(self.folds, self.outputs).astype(np.int64)

    def _counts(self, reply: Columns) -> Integers:
        return np.asarray(reply["place"].astype(np.int64) * self.outputs + reply[self.column].astype(np.int64))


def check_determined(weights: Integers) -> None:
    """Refuse a table with an output that nobody sends, or an input whose row is a mixture of others.

    Replies could not tell such an input from the others. Rows that are independent modulo a prime are independent.
    """
    used = weights.any(axis=0)
    if not used.all():
        raise BadInput(f"output {int(used.argmin())} is one that nobody sends; leave it out of the table")
    rows = weights % PRIME
    left = np.arange(weights.shape[1])
    for row in range(len(rows)):
        filled = np.flatnonzero(rows[row, left])
        if not filled.size:
            raise BadInput(
                f"the table does not determine the shares of the inputs: the weights of input {row} are a "
                "combination of those of the inputs before it"
            )
        pivot = left[filled[0]]
        own = rows[row] * pow(int(rows[row, pivot]), -1, PRIME) % PRIME
        rows[row + 1 :] = (rows[row + 1 :] - rows[row + 1 :, [pivot]] * own) % PRIME
        left = left[left != pivot]
