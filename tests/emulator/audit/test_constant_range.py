"""Honest users whose inner products are all the same: the audit finds nothing to hold against them."""

from pathlib import Path

import numpy as np
import pytest

from parley.protocols.registry import design
from parley.protocols.workloads.kernel import Kernel
from tests.emulator.audit.recordings import audited, inputs_for, record

USERS = 300


@pytest.mark.parametrize("matrix", [np.ones((4, 4)), np.ones((4, 4)) - 1e-13 * np.tri(4)], ids=["constant", "nearly"])
def test_a_kernel_of_ones_makes_no_offenders(matrix: np.ndarray, tmp_path: Path) -> None:  # type: ignore[type-arg]
    """Steps of the grid far from 0 used to overflow, and 300 honest users were reported."""
    protocol = design("two-round", Kernel(matrix, shift=0.0), epsilon=2.0, users=USERS)
    inputs = inputs_for(protocol, USERS)
    privacy = audited(record(tmp_path / "t.parley", protocol, inputs, nodes=2), inputs).record()["privacy"]
    assert privacy["offences"] == []
    assert (privacy["verdict"], privacy["users"]) == ("pass", USERS)
