"""Every schedule of a small world: all orders of delivery, with at most two faults, for two or three users.

    report = explore(protocol, inputs=(0, 1, 1))

The nodes are those that really run, the network is `network.py`, and what must hold in every state is in
`invariants.py` and `judge.py`. States are visited breadth first, and with fewer faults first, so that a violation is
shown with as few faults as possible and, with these, in as few steps as possible.
"""

import gc
import logging
import tempfile
import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from parley.emulator.protocol import Protocol
from parley.emulator.roles.replies import CHUNK
from parley.launch.testkit.world.judge import Judge
from parley.launch.testkit.world.lies import plotted
from parley.launch.testkit.world.network import Network, What, World
from parley.launch.testkit.world.parties import Cast, Parties
from parley.launch.testkit.world.steps import Company

SHARED_MEMORY = Path("/dev/shm")
"""Disks of processes are small files that live for a moment; they need not reach a real disk."""
Progress = Callable[[int, int], None]
"""Told how many states were visited, and how many are known so far."""


@dataclass(frozen=True, kw_only=True)
class Violation:
    """What is wrong in a state, the fewest faults that lead there and, with these, the shortest schedule."""

    what: str
    faults: int
    schedule: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"{number:3}. {step}" for number, step in enumerate(self.schedule, 1))])


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was found: the size of the world, how its runs end, and the first violation."""

    states: int
    transitions: int
    merged: int
    outcomes: Counter[str]
    seconds: float
    violation: Violation | None = None
    complete: bool = True

    @property
    def ok(self) -> bool:
        """Whether every schedule was tried, and nothing is wrong in any state."""
        return self.violation is None and self.complete


def explore(
    protocol: Protocol,
    inputs: Sequence[int] = (0, 1),
    *,
    nodes: int | None = None,
    faults: int = 2,
    signed: bool = True,
    chunk: int = CHUNK,
    relayed: bool = False,
    lies: bool = False,
    early: bool = False,
    reduced: bool = True,
    cast: Cast | None = None,
    most_states: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Try every schedule. A protocol that needs a shuffler gets one, between nodes and board.

    There is a node for every user unless `nodes` says how many. `signed`: messages are signed, and nodes want receipts.
    `chunk`: how many users a frame of replies speaks for. `relayed`: a relay stands between nodes and board.
    `lies`: somebody who has the keys may lie, for a fault.
    `early`: timers may fire at any time, for a fault. Without `reduced` only states that were seen before are left out.
    """
    held = np.asarray(inputs, dtype=np.int64)
    parties = Parties(
        protocol=protocol,
        inputs=held,
        nodes=nodes or len(held),
        signed=signed,
        chunk=chunk,
        relayed=relayed,
        cast=cast or Cast(),
    )
    began = time.process_time()
    memory = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with _quietly(), tempfile.TemporaryDirectory(prefix="parley-world-", dir=memory) as folder:
        company = Company(parties, Path(folder))
        try:
            told = plotted(company) if lies else None
            judge = Judge(company, Path(folder), lies=lies)
            # With few faults first: a world with one fault is a small part of a world with two.
            for allowed in range(faults + 1):
                network = Network(company, faults=allowed, reduced=reduced, early=early, lies=told)
                report = _Search(network, judge).run(began, most_states, progress)
                if not report.ok:
                    break
            return report
        finally:
            company.close()


@dataclass
class _Search:
    """Breadth first. Of a state that was visited, only where it came from is kept."""

    network: Network
    judge: Judge
    came: list[tuple[int, What]] = field(default_factory=list)
    known: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)
    free: tuple[array[int], array[int]] = field(default_factory=lambda: (array("I"), array("I")))
    outcomes: Counter[str] = field(default_factory=Counter)
    ends: list[int] = field(default_factory=list)
    transitions: int = 0

    def run(self, began: float, most_states: int | None, progress: Progress | None) -> Report:
        waiting = deque[tuple[int, World]]()
        violation, first = None, self.network.beginning()
        waiting.append((self._new(first, self.network.key(first), -1, ("",)), first))
        complete = True
        while waiting and violation is None:
            place, world = waiting.popleft()
            violation = self._visit(place, world, waiting)
            if most_states is not None and len(self.came) > most_states:
                complete = not waiting
                break
            if progress is not None and place % 1000 == 0:
                progress(place, len(self.came))
        if violation is None and complete:
            stuck = self._stuck()
            violation = None if stuck is None else self._violation(stuck, "without further faults the run never ends")
        return Report(
            states=len(self.came),
            transitions=self.transitions,
            merged=self.transitions - len(self.came) + 1,
            outcomes=self.outcomes,
            seconds=time.process_time() - began,
            violation=violation,
            complete=complete,
        )

    def _visit(self, place: int, world: World, waiting: deque[tuple[int, World]]) -> Violation | None:
        goes_on = False
        for choice in self.network.choices(world):
            self.transitions += 1
            goes_on |= choice.cost == 0
            key = self.network.key(choice.after)
            after, left = self.known.get(key, (-1, -1))
            if left < choice.after.left:
                after = self._new(choice.after, key, place, choice.what)
                waiting.append((after, choice.after))
                wrong = self.judge.wrong(choice.after)
                if wrong:
                    return self._violation(after, wrong)
            if choice.cost == 0:
                self.free[0].append(place)
                self.free[1].append(after)
        if goes_on:
            return None
        standings = [self.network.company.standings[each] for each in world.standings]
        if not self.network.is_over(standings):
            return self._violation(place, "nothing can happen any more, and the run is not over")
        self.ends.append(place)
        outcome, wrong = self.judge.outcome(world)
        self.outcomes[outcome] += 1
        return self._violation(place, wrong) if wrong else None

    def _new(self, world: World, key: tuple[object, ...], before: int, what: What) -> int:
        place = len(self.came)
        self.known[key] = place, world.left
        self.came.append((before, what))
        return place

    def _violation(self, place: int, what: str) -> Violation:
        steps = []
        while place > 0:
            place, (text, *gaps) = self.came[place]
            steps.append(text.format(*gaps))
        return Violation(what=what, faults=self.network.faults, schedule=tuple(reversed(steps)))

    def _stuck(self) -> int | None:
        """The first state from which no end is reached without further faults."""
        before = np.argsort(np.asarray(self.free[1], dtype=np.int64), kind="stable")
        sources = np.asarray(self.free[0], dtype=np.int64)[before]
        starts = np.searchsorted(np.asarray(self.free[1], dtype=np.int64)[before], np.arange(len(self.came) + 1))
        reached = np.zeros(len(self.came), np.bool_)
        frontier = np.asarray(self.ends, dtype=np.int64)
        while len(frontier):
            reached[frontier] = True
            steps = [sources[starts[each] : starts[each + 1]] for each in frontier]
            found = np.unique(np.concatenate(steps)) if steps else frontier[:0]
            frontier = found[~reached[found]]
        stuck = np.flatnonzero(~reached)
        return int(stuck[0]) if len(stuck) else None


@contextmanager
def _quietly() -> Iterator[None]:
    """Nodes log what they refuse and drop; here they do so by design, thousands of times."""
    before, collected = logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    # A million states hold no circles, and looking for some takes a third of the time.
    gc.disable()
    try:
        yield
    finally:
        logging.disable(before)
        if collected:
            gc.enable()
