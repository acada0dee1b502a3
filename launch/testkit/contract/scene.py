"""A case with the broadcasts that its rounds are looked at under: honest ones, extreme ones, and the edges between."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from parley.emulator.protocol import Broadcast, Send
from parley.emulator.round import Round
from parley.launch.testkit.contract.broadcasts import accepts, edge, extreme
from parley.launch.testkit.contract.play import CRASHES, honest_broadcasts
from parley.launch.testkit.target import Case
from parley.launch.testkit.verdicts import Effort

HONEST = {"quick": 4, "usual": 8, "thorough": 24}
EXTREME = {"quick": 60, "usual": 120, "thorough": 500}
EDGES = {"quick": 8, "usual": 24, "thorough": 60}
PLAYERS = 60
SEED = 16


@dataclass
class Looked:
    """What became of the broadcasts of one round: those that are answered, how many are refused, what crashed."""

    honest: list[Broadcast]
    answered: list[Broadcast] = field(default_factory=list)
    refused: int = 0
    crashes: list[tuple[Broadcast, str]] = field(default_factory=list)

    @property
    def all(self) -> list[Broadcast]:
        """The honest ones first."""
        return [*self.honest, *self.answered]

    def some(self, most: int) -> list[Broadcast]:
        """At most so many, of each kind some."""
        places = np.linspace(0, len(self.all) - 1, min(most, len(self.all))).astype(int)
        return [self.all[place] for place in places]


@dataclass(frozen=True)
class Scene:
    """A protocol for one problem, and how much effort is made."""

    case: Case
    effort: Effort

    @property
    def title(self) -> str:
        return self.case.title

    @cached_property
    def rounds(self) -> dict[int, Looked]:
        """For every round the broadcasts under which it is looked at."""
        protocol = self.case.protocol
        honest = honest_broadcasts(protocol, PLAYERS, HONEST[self.effort], SEED)
        return {step.number: self._look(step, found) for step, found in zip(protocol.rounds, honest, strict=True)}

    def _look(self, step: Round, honest: list[Broadcast]) -> Looked:
        looked, edges = Looked(honest=honest), EDGES[self.effort]
        for public in extreme(step, honest, EXTREME[self.effort], SEED):
            try:
                if accepts(step, public):
                    looked.answered.append(public)
                    continue
                looked.refused += 1
                last = edge(step, honest[looked.refused % len(honest)], public) if looked.refused <= edges else None
                if last is not None:
                    looked.answered.append(last)
            except CRASHES as error:
                looked.crashes.append((public, f"{type(error).__name__}: {error!s:.200}"))
        return looked

    def sends(self, most: int) -> Iterator[tuple[Round, Broadcast, str, Send]]:
        """Every send of every round under at most so many broadcasts, of each kind some; equal ones once."""
        for step in self.case.protocol.rounds:
            known = list[tuple[str, Send]]()
            for public in self.rounds[step.number].some(most):
                for name, send in step.sends(public).items():
                    if not any(name == other and equal(send, before) for other, before in known):
                        known.append((name, send))
                        yield step, public, name, send


def equal(first: Send, second: Send) -> bool:
    """Whether users send the same in both cases."""
    if first.randomizer != second.randomizer or type(first.value) is not type(second.value):
        return False
    if isinstance(first.value, np.ndarray) and isinstance(second.value, np.ndarray):
        return np.array_equal(first.value, second.value)
    return first.value is second.value


def brief(public: Broadcast) -> str:
    """A broadcast in a few words, for evidence."""
    return (
        ", ".join(
            f"{name} = {np.array2string(np.asarray(array), precision=4, threshold=6)}"[:120]
            for name, array in public.items()
        )
        or "nothing"
    )
