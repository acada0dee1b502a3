"""A node's memory, as far as the C library decides about it."""

import ctypes
from functools import cache

M_ARENA_MAX = -8


@cache
def library() -> ctypes.CDLL:
    """The C library; whoever forks opens it before."""
    return ctypes.CDLL(None)


def keep_one_heap() -> None:
    """Let all threads of this process allocate from one heap; glibc would give each its own."""
    if hasattr(library(), "mallopt"):
        library().mallopt(M_ARENA_MAX, 1)


def give_back() -> None:
    """Give free memory back to the system: a node waits most of its life, and may do so among thousands."""
    if hasattr(library(), "malloc_trim"):
        library().malloc_trim(0)
