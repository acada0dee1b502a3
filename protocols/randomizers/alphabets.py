"""The parts of a reply for the audit of fidelity: what is randomised, its values, and what it is chosen from."""

import numpy as np

from parley.emulator.audit.fidelity import Choice
from parley.emulator.protocol import Broadcast
from parley.emulator.round import Round, wire_name


def choices(step: Round, public: Broadcast) -> tuple[Choice, ...]:
    """What a round sends, with the values of all k inputs; nothing where replies are sealed."""
    sent = step.sends(public)
    if not all(
        wire_name(name, column) in step.reply for name, send in sent.items() for column in send.randomizer.reply
    ):
        return ()
    return tuple(
        Choice(
            name=name,
            randomizer=send.randomizer,
            values=send.at(np.arange(step.inputs)),
            alphabet=send.randomizer.alphabet,
        )
        for name, send in sent.items()
    )
