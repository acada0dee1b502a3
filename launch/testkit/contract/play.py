"""A protocol's rounds called one after the other, without messages: quick, and with coins from a generator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError, ParleyError
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Inputs, Protocol
from parley.emulator.randomizer import Coins, Columns
from parley.emulator.round import Round

# What code that somebody wrote may raise where it should not; anything else is a fault of this program.
BREAKDOWNS = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    RuntimeError,
)
CRASHES = (ParleyError, *BREAKDOWNS)


@dataclass(frozen=True)
class Played:
    """One round as it was played."""

    step: Round
    public: Broadcast
    users: NDArray[np.int64]
    coins: Coins
    replies: Columns

    @property
    def complete(self) -> Columns:
        """The replies with what follows from the users' numbers."""
        return self.step.complete(self.public, self.users, self.replies)


def play(
    protocol: Protocol, inputs: Inputs, generator: np.random.Generator, there: NDArray[np.bool_] | None = None
) -> tuple[list[Played], Estimate]:
    """A whole run: what was played, and what the analyst says. `there`: which users answer; without it, all do."""
    analysis, rounds = Analysis(protocol), list[Played]()
    said: Broadcast | Estimate = analysis.open()
    for step in protocol.rounds:
        if isinstance(said, Estimate):
            raise LocalProtocolError(f"{protocol.name} ended before round {step.number}")
        speaking = step.participates(np.arange(len(inputs)))
        users = np.flatnonzero(speaking if there is None else speaking & there)
        coins = flips(step.coins, len(users), generator)
        rounds.append(Played(step, said, users, coins, step.respond(said, inputs[users], coins, users)))
        said = analysis.hear(said, step.tally(said, rounds[-1].complete))
    if not isinstance(said, Estimate):
        raise LocalProtocolError(f"{protocol.name} asks more than its {len(rounds)} rounds")
    return rounds, said


def flips(size: int, users: int, generator: np.random.Generator) -> Coins:
    """Coins for so many users."""
    return generator.integers(0, 256, (users, size), dtype=np.uint8)


def honest_broadcasts(protocol: Protocol, users: int, runs: int, seed: int) -> list[list[Broadcast]]:
    """For every round, what an honest analyst broadcasts about some populations: mixed ones, and of one input each.

    A population that the protocol cannot play is left out; the checks find out why.
    """
    generator = np.random.default_rng(seed)
    found: list[list[Broadcast]] = [[] for _ in protocol.rounds]
    for inputs in populations(protocol.inputs, users, runs, generator):
        try:
            played, _ = play(protocol, inputs, generator)
        except CRASHES:
            continue
        for each in played:
            found[each.step.number - 1].append(each.public)
    return [listed or [example_of(step)] for listed, step in zip(found, protocol.rounds, strict=True)]


def populations(inputs: int, users: int, runs: int, generator: np.random.Generator) -> Sequence[Inputs]:
    """Uniform, then everybody alike, then skewed ones."""
    made: list[Inputs] = [generator.integers(inputs, size=users)]
    for number in range(1, runs):
        if number % 2:
            made.append(np.full(users, (number // 2) * max(1, inputs - 1) % inputs, dtype=np.int64))
        else:
            made.append(generator.choice(inputs, size=users, p=generator.dirichlet(np.full(inputs, 0.5))))
    return made


def example_of(step: Round) -> Broadcast:
    """The broadcast that a round declares as usual."""
    return {
        name: np.full(shape, step.question.arrays[name].like, dtype) for name, (dtype, shape) in step.broadcast.items()
    }
