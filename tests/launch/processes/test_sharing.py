"""What a process does before it forks a crowd: fewer pages are copied afterwards, and nothing else changes."""

import subprocess
import sys
from functools import partial

from parley.launch.processes.sharing import code_run_by, gather, immortal_mark, reachable
from tests.launch.conftest import ROOT

IMMORTAL = sys.version_info >= (3, 12)
OWN = """
import os
from parley.launch.processes.sharing import settle, share

def own():
    lines = open("/proc/self/smaps_rollup").read().splitlines()[1:]
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    return sizes["Private_Dirty"] + sizes["Private_Clean"]
"""


def told(program: str) -> list[str]:
    """What a program prints that plays with a memory of its own."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_python_with_immortal_objects_is_recognised() -> None:
    assert (immortal_mark() is not None) == IMMORTAL


def test_what_code_refers_to_is_reachable() -> None:
    constant = told.__code__.co_consts[0]
    found = reachable()
    assert found[id(told)] is told
    assert found[id(constant)] is constant


def copied_kibibytes(prepare: str) -> int:
    """What a child copies that looks at many objects of its parent, once."""
    program = f"""{OWN}
things = [[str(number), float(number)] for number in range(100_000)]
{prepare}()
if os.fork() == 0:
    before = own()
    assert sum(len(name) + value for name, value in things) == 5000438890
    print(own() - before, flush=True)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    (copied,) = told(program)
    return int(copied)


def test_a_child_that_only_looks_copies_next_to_nothing() -> None:
    """Where references to what is shared are not counted; elsewhere it copies what it looks at."""
    assert (copied_kibibytes("share") * 20 < copied_kibibytes("settle")) == IMMORTAL


def test_shared_objects_still_work() -> None:
    """They can be changed, dropped, collected around and forked again; only their room is not given back."""
    program = f"""{OWN}
import gc
class Node:
    def __init__(self): self.self, self.items = self, [1]
node, table = Node(), {{"a": [1, 2], "b": "text"}}
share()
for generation in range(3):
    if os.fork() == 0:
        node.items.append(generation)
        table["c"] = node
        del table["a"]
        node.self = None
        table["b"] += "more"
        extra = [Node() for _ in range(1000)]
        del extra
        gc.unfreeze(); gc.collect()
        print(len(node.items), table["b"], sorted(table), flush=True)
        share()
        print(len(table), flush=True)
        os._exit(0)
    assert os.wait()[1] == 0
os._exit(0)
"""
    assert told(program) == ["2", "textmore", "['b',", "'c']", "2"] * 3


def test_new_objects_keep_away_from_old_ones() -> None:
    program = """
import os
from parley.launch.processes.sharing import fill_gaps
sizes = (40, 100, 400, 3000)
old = {size: [bytes(size) for _ in range(20_000)][::2] for size in sizes}
pages = {size: {id(each) >> 12 for each in kept} for size, kept in old.items()}
fill_gaps()
new = {size: [bytes(size) for _ in range(50)] for size in sizes}
print(*(sum(id(each) >> 12 in pages[size] for each in made) for size, made in new.items()), flush=True)
os._exit(0)
"""
    assert told(program) == ["0"] * 4


def outer(start: int, *, step: int = 2) -> list[int]:
    """Uses a closure and a generator."""

    def inner(number: int) -> int:
        return number * step + start

    return list(inner(number) for number in range(3))  # noqa: C400


def unused() -> None:
    """Is not called."""


def test_gathered_code_is_another_and_the_same() -> None:
    before, still = outer.__code__, unused.__code__
    code = code_run_by(partial(outer, 1))
    assert id(before) in code
    assert id(still) not in code
    gather(code)
    assert outer.__code__ is not before
    assert outer.__code__ == before
    assert unused.__code__ is still
    inner = {id(each) for each in before.co_consts if hasattr(each, "co_code")}
    assert len(inner) == 2
    assert inner.isdisjoint(map(id, outer.__code__.co_consts))
    assert outer(1) == [1, 3, 5]
    assert outer(1, step=5) == [1, 6, 11]
