"""Acts of treachery: states that are lost, copied or full, boards that lie, records that are forged.

Each act is one run of real processes before a board that keeps every frame it is sent. Whatever is done, nobody may
draw twice for one question, every reply must be what its inputs and the coins of exactly that question give, and
what somebody forged, swapped or dropped must be found and named.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.deeds import EPSILON, Act, Deed
from benchmarks.liars import dropping_board, equivocating_board, forged_record, rewriting_board
from benchmarks.stage import Hung
from benchmarks.states import another_setup, copied_state, full_disk, is_over, lost_state, shared_state
from parley.emulator.errors import ParleyError
from parley.emulator.round import Round
from parley.protocols.registry import design, lookup, needs_shuffler
from parley.protocols.workloads.choice import make_workload

Choice = tuple[str, tuple[str, str]]
PERFORMERS: Mapping[str, Callable[[Deed, Path, Path | None], None]] = {
    "another setup": another_setup,
    "lost state": lost_state,
    "copied state": copied_state,
    "shared state": shared_state,
    "full disk": full_disk,
    "equivocating board": equivocating_board,
    "dropping board": dropping_board,
    "rewriting board": rewriting_board,
    "forged record": forged_record,
}
ACTS = tuple(PERFORMERS)
# Their lies are told by the order in which words arrive.
LIARS = ("equivocating board", "dropping board", "rewriting board")
# Somebody is asked, or shown, something else in a later round.
MANY_ROUNDS = ("equivocating board", "rewriting board", "copied state")
PROBABILITY = 0.4


def make_act(seed: int, kind: str, choices: list[Choice]) -> Act:
    """An act from its seed and kind alone."""
    generator = np.random.default_rng([seed, 8])
    variant = int(generator.integers(2**16))
    later = kind in MANY_ROUNDS or (kind == "another setup" and not is_over(variant))
    # Who trusts a shuffler has no receipts, and its nodes sign nothing that is on record.
    fit = [each for each in choices if len(rounds_of(*each)) > later and not needs_shuffler(lookup(each[0]))]
    if kind == "equivocating board":
        # As many bins as fine levels have one place for each border: there is no second question to ask.
        fit = [each for each in fit if each[0] != "binned"]
    protocol, problem = fit[int(generator.integers(len(fit)))]
    return Act(
        seed=seed,
        kind=kind,
        variant=variant,
        protocol=protocol,
        problem=problem,
        users=int(generator.integers(60, 300)),
        processes=int(generator.integers(2, 5)),
    )


@cache
def rounds_of(protocol: str, problem: tuple[str, str]) -> tuple[Round, ...]:
    return design(protocol, make_workload(*problem, None), epsilon=EPSILON, users=60).rounds


def draw_kind(seed: int) -> str:
    """The act that goes with a run of this seed; empty where there is none."""
    generator = np.random.default_rng([seed, 12])
    return str(generator.choice(ACTS)) if generator.random() < PROBABILITY else ""


def perform_act(act: Act, folder: Path, conditions: Path | None = None) -> Deed:
    """Do it, and judge what came of it. `conditions`: what links are put under; boards that lie need good ones."""
    deed, began = Deed(act), time.monotonic()
    try:
        PERFORMERS[act.kind](deed, folder, None if act.kind in LIARS else conditions)
    except Hung as error:
        deed.hung = True
        deed.wrong.append(f"it hung: {error}")
    except ParleyError as error:
        deed.wrong.append(f"it cannot be judged: {error}")
    deed.seconds = time.monotonic() - began
    return deed
