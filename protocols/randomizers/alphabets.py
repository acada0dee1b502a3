"""Which column of a reply a randomizer chooses, and from what: everything else in a reply does not depend on the input.

An auditor that knows the alphabet can list every reply a user might have sent instead of the recorded one, and so
test the recorded ones against the whole law.
"""

from functools import singledispatch

import numpy as np

from parley.emulator.audit.fidelity import Choice
from parley.emulator.protocol import Broadcast
from parley.emulator.randomizer import Alphabet, Randomizer
from parley.emulator.round import Round
from parley.protocols.legacy_rounds import ComposedRound
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.randomizers.vectors.seeded import Seeded


@singledispatch
def alphabet(randomizer: Randomizer) -> Alphabet | None:
    """The chosen column with its smallest and largest value; None where a reply is no choice from a list."""
    return randomizer.alphabet


@alphabet.register
def _(randomizer: OneBit) -> Alphabet:
    return Alphabet(column="bit", first=0, last=1)


@alphabet.register
def _(randomizer: Seeded) -> Alphabet:
    return Alphabet(column="index", first=0, last=randomizer.candidates - 1)


@alphabet.register
def _(randomizer: GridLaplace) -> Alphabet:
    first, last = randomizer.outcomes
    return Alphabet(column="step", first=first, last=last)


def choices(step: Round, public: Broadcast) -> tuple[Choice, ...]:
    """The parts of a round with their functions at all k inputs; none where a round is not made of parts."""
    if hasattr(step, "question"):
        return tuple(
            Choice(
                name=name,
                randomizer=send.randomizer,
                values=send.at(np.arange(step.inputs)),
                alphabet=alphabet(send.randomizer),
            )
            for name, send in step.sends(public).items()
        )
    if not isinstance(step, ComposedRound):
        return ()
    values = step.functions(public, np.arange(step.inputs))
    return tuple(
        Choice(
            name=part.name,
            randomizer=part.randomizer,
            values=values[part.name],
            alphabet=alphabet(part.randomizer),
        )
        for part in step.parts_for(public)
    )
