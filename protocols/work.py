"""How much a stranger's setup may cost a user's node: two limits, checked before the work is done.

Work is counted in numbers: 64-bit words that are drawn, computed or kept. The limits are fixed, not read off the
machine, because analyst and users must agree on what is too much. The number of inputs k is a matter of its own: a
user says which k it consents to, and `registry.inputs_of` reads k before anything is built.
"""

from functools import singledispatch

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Randomizer
from parley.emulator.round import Round
from parley.protocols.legacy_rounds import ComposedRound
from parley.protocols.limits import MOST_REPLY
from parley.protocols.randomizers.exact import WORD_BYTES
from parley.protocols.randomizers.vectors.seeded import Seeded


def check_work(protocol: Protocol) -> None:
    """No round asks more than `MOST_REPLY` numbers of a user. This makes all randomizers, so wrong ones are refused."""
    for number, step in enumerate(protocol.rounds, 1):
        needed = max(work(step), entries(step), -(-step.coins // WORD_BYTES))
        if needed > MOST_REPLY:
            raise BadInput(
                f"round {number} of {protocol.name} takes {needed} numbers for each user's reply, more than the limit "
                f"of {MOST_REPLY}; use fewer levels or candidates"
            )


def entries(step: Round) -> int:
    """Numbers of a broadcast and of a reply to it."""
    total = 0
    for _, shape in (*step.broadcast.values(), *step.reply.values()):
        size = 1
        for length in shape:
            size *= length
        total += size
    return total


@singledispatch
def work(step: Round) -> int:
    """Numbers behind one user's reply; of a round that is not known, its coins."""
    if hasattr(step, "question"):
        return sum(effort(send.randomizer) for send in step.usual.values())
    return -(-step.coins // WORD_BYTES)


@work.register
def _(step: ComposedRound) -> int:
    return sum(effort(part.randomizer) for part in step.parts)


@singledispatch
def effort(randomizer: Randomizer) -> int:
    """Numbers behind one reply of a randomizer."""
    return randomizer.work


@effort.register
def _(randomizer: Seeded) -> int:
    """Every candidate is expanded."""
    return randomizer.half * randomizer.ambient
