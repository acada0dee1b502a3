"""Work on all cores comes back in order, and stops when nobody wants more of it."""

import threading
from collections.abc import Iterator

import pytest

from parley.emulator.cores import in_order


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_the_order_of_their_items(workers: int, count: int) -> None:
    assert list(in_order(lambda item: item**2, range(count), workers=workers)) == [(n, n**2) for n in range(count)]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_goes_wrong_goes_wrong_for_the_caller_and_no_thread_is_left(workers: int) -> None:
    def work(item: int) -> int:
        if item == 7:
            raise ArithmeticError("seven")
        return item

    before = threading.active_count()
    with pytest.raises(ArithmeticError, match="seven"):
        list(in_order(work, range(20), workers=workers))
    assert threading.active_count() == before


def test_few_items_are_taken_before_they_are_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = in_order(lambda item: item, items(), workers=2)
    assert next(results) == (0, 0)
    assert len(taken) <= 6
    results.close()  # type: ignore[attr-defined]
    assert len(taken) <= 6
