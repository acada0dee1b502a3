"""Sets of users as runs and pages agree with sets of users as sets."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.emulator.record import user_sets
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


@pytest.fixture
def small_pages() -> Iterator[None]:
    """Pages of 16 numbers, which three runs are worth."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PAGE": 16, "MANY_RUNS": 3, "NEAR_PAGES": 2, "_MOST_PENDING": 4}.items():
            patch.setattr(user_sets, name, value)
        yield


@pytest.mark.usefixtures("small_pages")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(frames=frames, others=frames, ranges=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=3))
def test_pages_and_runs_are_sets(frames: list[set[int]], others: list[set[int]], ranges: list[tuple[int, int]]) -> None:
    users, more = UserSet(), UserSet()
    for numbers, target in [*((frame, users) for frame in frames), *((frame, more) for frame in others)]:
        target.add(np.array(sorted(numbers), dtype=np.int64))
    for first, many in ranges:
        users.add_range(first, first + many)
        len(users)
    users.join(more)
    expected = sorted(set().union(*frames, *others, *(range(first, first + many) for first, many in ranges)))
    assert len(users) == len(expected)
    everybody = np.arange(100)
    assert users.holds(everybody).tolist() == np.isin(everybody, expected).tolist()
    assert users.holds(everybody[::-1]).tolist() == np.isin(everybody[::-1], expected).tolist()
    for first in (0, 5, 16, 17, 99):
        assert users.marks(first, 100).tolist() == np.isin(everybody[first:], expected).tolist()
    for size in (1, 7, 100):
        assert [int(user) for block in users.blocks(size) for user in block] == expected
    chosen = users.choose(5, np.random.default_rng(1))
    assert set(chosen.tolist()) <= set(expected)
    assert len(chosen) == min(5, len(expected))


def test_every_other_user_of_a_million_takes_a_bit_per_number() -> None:
    users = UserSet()
    for first in range(0, 10**6, 50_000):
        users.add(np.arange(first, first + 50_000, 2))
    assert len(users) == 500_000
    assert len(users._starts) == 0
    assert sum(page.nbytes for page in users._pages.values()) <= 10**6 // 8 + user_sets.PAGE


def test_far_users_make_no_page_that_is_larger_than_their_runs() -> None:
    users = UserSet()
    for first in range(0, 2**40, 2**33):
        users.add(first + 2 * np.arange(100))
    assert len(users) == 128 * 100
    assert not users._pages
