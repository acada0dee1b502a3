"""Arithmetic that gives the same bits again.

A linear algebra library splits long sums among its threads and so rounds differently with their number. What goes on
record must not depend on how many cores a machine has, so the analyst computes on one thread, here and wherever a
record is recomputed. Another kind of processor may still round differently; docs/audit.md says what follows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    """The thread pools of this process, looked for once: scipy's comes with its first use, so it is used now."""
    import_module("scipy.linalg")
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, linear algebra runs on one thread."""
    with _libraries().limit(limits=1):
        yield
