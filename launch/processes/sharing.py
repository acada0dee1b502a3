"""Memory that goes on being shared after a fork: what a process can do for the crowd it is about to fork.

A page is shared until somebody writes to it, and Python writes where one only reads: into the reference count of
every object it uses, into the collector's lists, into the bytecode it runs, which keeps notes on what it met. New
objects are put into gaps between old ones. Each of these has its remedy here; none changes what a program computes.
"""

import ctypes
import gc
import os
import select
import signal
import struct
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NoReturn

from parley.nodes.memory import library

# CPython's allocator of small objects: pools of one size each, sizes in steps up to a largest.
POOL_BITS, POOL_HEAD, STEP, LARGEST = 14, 48, 16, 512
BYTES_HEAD = sys.getsizeof(b"")
SOME_INTEGER = 10**6
MOST_FILLER = 2**24
# Sizes for the C library's allocator: it keeps freed blocks of small sizes apart, each for the same size only.
BLOCKS = (*(2**power for power in range(16, 10, -1)), *range(1032, 0, -16))
# What is on the stack now is gone after the fork.
PASSING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)

# Code objects by their addresses, which a child has in common with its parent.
Code = set[int]
ADDRESS = struct.Struct("<Q")
# Whole addresses: a pipe does not tear what is written at once.
TOLD_BYTES = 512 * ADDRESS.size
QUIET_SECONDS = 0.1

_fillers: list[list[object]] = []


def settle() -> None:
    """Keep the collector off the pages that exist now."""
    gc.collect()
    gc.freeze()


def share() -> None:
    """The same, and neither counting references nor new objects shall touch these pages either."""
    gc.unfreeze()
    gc.collect()
    immortalise()
    gc.freeze()
    fill_gaps()


class _Heap(ctypes.Structure):
    """What glibc says of its heap (struct mallinfo2)."""

    _fields_ = (("others", 9 * ctypes.c_size_t), ("free_at_the_end", ctypes.c_size_t))


def immortalise() -> int:
    """Let no reference to an object that exists now be counted any more; how many objects that are.

    Since 3.12 CPython leaves the count of an immortal object alone (PEP 683). An older Python is left as it is.
    """
    mark = immortal_mark()
    if mark is None:
        return 0
    found = reachable()
    for address in found:
        ctypes.c_uint32.from_address(address).value = mark
    return len(found)


def immortal_mark() -> int | None:
    """The count of an immortal object; None where there are none, or counts lie elsewhere than we believe."""
    if sys.implementation.name != "cpython" or sys.maxsize < 2**32:
        return None
    probe = object()
    count, of_none = (ctypes.c_uint32.from_address(id(each)) for each in (probe, None))
    before = count.value, of_none.value
    more = [probe, probe, None, None]
    after = count.value, of_none.value
    del more
    return before[1] if after == (before[0] + 2, before[1]) else None


def reachable() -> dict[int, object]:
    """Every object that the collector knows, or that one of those refers to, by address."""
    layer, found = gc.get_objects(), dict[int, object]()
    while layer:
        fresh = {id(each): each for each in layer if id(each) not in found and type(each) not in PASSING}
        found.update(fresh)
        layer = [other for each in fresh.values() for other in _referents(each)]
    return found


def _referents(owner: object) -> Iterable[object]:
    # The collector does not look into code.
    if type(owner) is types.CodeType:
        return (owner.co_consts, owner.co_names, owner.co_name, owner.co_qualname, owner.co_filename)
    return gc.get_referents(owner)


def fill_gaps() -> None:
    """Fill the free room between objects, so that new ones lie side by side on pages of their own."""
    for size in range(STEP, LARGEST + 1, STEP):
        _fill_pools(size)
    _fill_heap()


def _fill_pools(size: int) -> None:
    """Make objects of this size until a pool holds no others: then all pools before it were full."""
    capacity = (2**POOL_BITS - POOL_HEAD) // size
    made: list[object] = []
    whole: set[int] = set()
    while not whole and len(made) * size < MOST_FILLER:
        made += _objects(size, capacity)
        pools = Counter(id(each) >> POOL_BITS for each in made)
        whole = {pool for pool, count in pools.items() if count == capacity}
    _fillers.append([each for each in made if id(each) >> POOL_BITS not in whole])


def _objects(size: int, count: int) -> list[object]:
    """So many new objects that take so many bytes each, and are in no list of the collector."""
    if size < BYTES_HEAD:
        return [object() for _ in range(count)] if size == STEP else list(range(SOME_INTEGER, SOME_INTEGER + count))
    return [bytes(size - BYTES_HEAD) for _ in range(count)]


def _fill_heap() -> None:
    """Take what the C library has free, up to the end of its heap; for good."""
    if not hasattr(library(), "mallinfo2"):
        # Another C library: its gaps stay.
        return
    address = ctypes.c_size_t
    malloc = ctypes.CFUNCTYPE(address, address)(("malloc", library()))
    free = ctypes.CFUNCTYPE(None, address)(("free", library()))
    sbrk = ctypes.CFUNCTYPE(address, ctypes.c_ssize_t)(("sbrk", library()))
    end = sbrk(0) - ctypes.CFUNCTYPE(_Heap)(("mallinfo2", library()))().free_at_the_end
    for size in BLOCKS:
        while 0 < (block := malloc(size)) < end:
            pass
        free(block)


def code_run_by(work: Callable[[], object]) -> Code:
    """The code of all Python functions that are called meanwhile."""
    seen: Code = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        seen.add(id(frame.f_code))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def code_run_by_child(live: Callable[[], NoReturn]) -> Code:
    """The same for a forked child, from its birth until nothing new happens in it; then it is killed."""
    reading, writing = os.pipe()
    seen: Code = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if id(frame.f_code) not in seen:
            seen.add(id(frame.f_code))
            os.write(writing, ADDRESS.pack(id(frame.f_code)))

    sys.setprofile(note)
    try:
        if (child := os.fork()) == 0:
            live()
    finally:
        sys.setprofile(None)
    os.close(writing)
    while select.select([reading], [], [], QUIET_SECONDS)[0] and (told := os.read(reading, TOLD_BYTES)):
        seen |= {address for (address,) in ADDRESS.iter_unpack(told)}
    os.close(reading)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return seen


def gather(code: Code) -> None:
    """Give functions with this code copies of it that lie side by side: running code writes into it."""
    copies: dict[int, types.CodeType] = {}

    def copy(original: types.CodeType) -> types.CodeType:
        if id(original) not in copies:
            inner = tuple(
                # An address that a child has told us may be something else's here.
                copy(each) if type(each) is types.CodeType and id(each) in code else each
                for each in original.co_consts
            )
            copies[id(original)] = original.replace(co_consts=inner)
        return copies[id(original)]

    functions = [each for each in _functions() if id(each.__code__) in code]
    # All copies are made before the first original goes, lest they take its place.
    for each, made in [(each, copy(each.__code__)) for each in functions]:
        each.__code__ = made


def _functions() -> list[types.FunctionType]:
    gc.unfreeze()
    return [each for each in gc.get_objects() if type(each) is types.FunctionType]
