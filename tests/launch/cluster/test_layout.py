"""Who takes part in a run, and in which process."""

import numpy as np
import pytest

from parley.launch.cluster.layout import shares


@pytest.mark.parametrize(("users", "processes"), [(7, 3), (9, 3), (5, 5), (1_000_003, 4)])
def test_processes_share_users_as_equally_as_can_be(users: int, processes: int) -> None:
    parts = [(int(part[0]), len(part)) for part in np.array_split(np.arange(users), processes)]
    assert list(shares(users, processes)) == parts
