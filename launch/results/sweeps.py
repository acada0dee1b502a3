"""Many runs of one problem in memory, spread over all cores: how far off a protocol is and how far it said it is."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.simulate import simulate
from parley.nodes.environment import SINGLE_THREADED
from parley.protocols import registry
from parley.protocols.planning import fast_simulation

BATCH = 100
Work = TypeVar("Work")
Done = TypeVar("Done")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Some trials of one case, as plain data: a worker process makes the protocol again from its Setup."""

    case: int
    name: str
    parameters: Mapping[str, Any]
    inputs: Inputs
    truth: float
    first: int
    trials: int
    seed: int
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The errors of some trials of a case."""

    case: int
    errors: Floats


def batches(
    case: int, protocol: Protocol, inputs: Inputs, truth: float, *, trials: int, seed: int, exact: bool, begin: int = 0
) -> Iterator[Batch]:
    """The trials of a case from `begin` up to `trials`, cut into pieces of work."""
    for first in range(begin, trials, BATCH):
        yield Batch(
            case=case,
            name=protocol.name,
            parameters=protocol.parameters(),
            inputs=inputs,
            truth=truth,
            first=first,
            trials=min(BATCH, trials - first),
            seed=seed,
            exact=exact,
        )


def trial(batch: Batch) -> Outcome:
    """Run the trials of a batch, one after the other; trial t of a seed is the same whoever runs it."""
    protocol: Any = registry.build(batch.name, batch.parameters)
    counts = np.bincount(batch.inputs, minlength=protocol.inputs).astype(np.int64)
    numbers = range(batch.first, batch.first + batch.trials)
    generators = [np.random.default_rng([batch.seed, batch.case, number]) for number in numbers]
    if batch.exact:
        found = []
        for generator in generators:
            # Data are handed out anew each time, so that whoever is asked in a round is a fresh sample.
            key = key_from_seed(int(generator.integers(2**62)))
            found.append(simulate(protocol, generator.permutation(batch.inputs), key).estimate)
    else:
        found = [estimate.value for estimate in fast_simulation.play_all(protocol, counts, generators)]
    return Outcome(case=batch.case, errors=np.array([value - batch.truth for value in found]))


def spread(task: Callable[[Work], Done], work: Sequence[Work], processes: int | None = None) -> Iterator[Done]:
    """What a task makes of every piece of work, as it comes; with one process everything happens here."""
    wanted = min(processes or os.cpu_count() or 1, len(work))
    if wanted <= 1:
        yield from map(task, work)
        return
    # A fresh interpreter a worker: nothing is inherited, whatever threads this process has.
    with _one_thread_each(), ProcessPoolExecutor(wanted, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(task, piece) for piece in work]):
            yield done.result()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Cores are shared out among processes already; a worker's matrix products must not ask for them again."""
    before = {name: os.environ.get(name) for name in SINGLE_THREADED}
    os.environ.update(SINGLE_THREADED)
    try:
        yield
    finally:
        for name in SINGLE_THREADED:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def rmse(errors: Floats) -> float:
    """Exactly rounded, so it does not depend on which worker finished first."""
    return math.sqrt(math.fsum(errors**2) / len(errors))
