"""Groups are a public function of a user's number and nothing else, however many users are asked about at once."""

import numpy as np
import pytest

from parley.protocols.tuned.groups import NEAR_PAGES, PAGE, WORTH_PAGES, groups_of

BORDER = 3 * PAGE


@pytest.mark.parametrize(
    "users",
    [
        np.arange(BORDER - WORTH_PAGES, BORDER + WORTH_PAGES),
        np.arange(BORDER - WORTH_PAGES, BORDER + 3 * WORTH_PAGES, 3),
        np.arange(WORTH_PAGES)[::-1] * 7,
        np.arange(WORTH_PAGES) * (NEAR_PAGES * PAGE // WORTH_PAGES + 1),
        2**62 - 1 - np.arange(WORTH_PAGES),
    ],
    ids=["neighbours", "gaps", "falling", "scattered", "last"],
)
def test_many_at_once_are_in_the_groups_of_each_alone(users: np.ndarray) -> None:
    few = WORTH_PAGES // 2
    alone = np.concatenate([groups_of(users[start : start + few], 7, 0.1) for start in range(0, len(users), few)])
    assert 0.05 < 1 - alone.mean() < 0.15
    assert (groups_of(users, 7, 0.1) == alone).all()
    assert (groups_of(users, 8, 0.1) != alone).any()
    assert (groups_of(users, 7, 0.3) != alone).any()
