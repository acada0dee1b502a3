"""Work for all cores, handed out and taken back in order.

Threads, not processes: numpy and the signature library let go of the interpreter while they compute, nothing has to be
copied from one process to another, and no thread outlives the command.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], *, workers: int | None = None
) -> Iterator[tuple[Item, Result]]:
    """Each item with what `work` makes of it, in the order of the items.

    Few items wait at a time. One item alone, or one core, is worth no thread.
    """
    workers, items = workers or os.cpu_count() or 1, iter(items)
    first = list(islice(items, 2))
    if workers == 1 or len(first) < 2:
        for item in chain(first, items):
            yield item, work(item)
        return
    waiting: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="core") as pool:
        try:
            for item in chain(first, items):
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > 2 * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            # Whoever stops early, or interrupts the audit, waits for what is running and for nothing else.
            pool.shutdown(cancel_futures=True)
