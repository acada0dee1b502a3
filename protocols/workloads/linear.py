"""Linear queries (the paper's second definition): a workload matrix of any shape q x k, answered by W h."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import (
    LARGEST_DENSE_BYTES,
    Entries,
    Workload,
    check_inputs,
    count_inputs,
    finite_matrix,
)


@dataclass(frozen=True, eq=False, init=False)
class LinearQueries(Entries):
    """q means over users: row j is a function on [k], and its answer is (W h)_j."""

    name: ClassVar[str] = "linear-queries"
    shift: ClassVar[float] = 0.0
    values: Floats

    def __init__(self, matrix: ArrayLike) -> None:
        values = finite_matrix("a workload of linear queries", matrix)
        queries, size = values.shape
        if queries < 1 or size < 2:
            raise BadInput(f"linear queries need at least 1 row and 2 columns, got {queries} x {size}")
        if values.nbytes > LARGEST_DENSE_BYTES:
            raise BadInput(f"{queries} x {size} linear queries need more than {LARGEST_DENSE_BYTES / 2**30:.0f} GiB")
        object.__setattr__(self, "values", values)

    def exact(self, inputs: Inputs) -> Floats:
        check_inputs(inputs, self.size, least=1)
        counts = count_inputs(inputs, self.size)
        return np.asarray(self.values @ counts / len(inputs), dtype=np.float64)

    def parameters(self) -> dict[str, Any]:
        return {"queries": self.name, "matrix": self.values}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> "LinearQueries | Workload":
        """The queries that a Setup describes: by their matrix, or the W of a statistic."""
        if "queries" not in parameters:
            return Workload.from_parameters(parameters)
        if set(parameters) != {"queries", "matrix"} or parameters["queries"] != LinearQueries.name:
            raise BadInput(f"linear queries take the parameters queries and matrix, got {sorted(map(str, parameters))}")
        return LinearQueries(parameters["matrix"])
