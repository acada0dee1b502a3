"""Sets of users as runs agree with sets of users as sets."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.record.user_sets import UserSet

frames = st.lists(st.sets(st.integers(0, 60), max_size=20), max_size=8)


@settings(deadline=None)
@given(frames=frames, size=st.integers(1, 9))
def test_runs_are_sets(frames: list[set[int]], size: int) -> None:
    users = UserSet()
    for frame in frames:
        users.add(np.array(sorted(frame), dtype=np.int64))
    expected = sorted(set().union(*frames))
    assert len(users) == len(expected)
    blocks = list(users.blocks(size))
    assert [int(user) for block in blocks for user in block] == expected
    assert all(len(block) <= size for block in blocks)
    everybody = np.arange(70)
    assert users.holds(everybody).tolist() == np.isin(everybody, expected).tolist()


@settings(deadline=None)
@given(frames=frames, count=st.integers(0, 70))
def test_a_choice_is_a_subset(frames: list[set[int]], count: int) -> None:
    users = UserSet()
    for frame in frames:
        users.add(np.array(sorted(frame), dtype=np.int64))
    chosen = users.choose(count, np.random.default_rng(1))
    assert len(chosen) == min(count, len(users))
    assert (np.diff(chosen) > 0).all()
    assert users.holds(chosen).all()


def test_a_million_users_are_one_run() -> None:
    users = UserSet()
    for first in range(0, 10**6, 4096):
        users.add(np.arange(first, min(first + 4096, 10**6)))
    assert len(users) == 10**6
    assert len(users._starts) == 1
