"""Sources of error of the protocols that come with Parley, from what the analyst heard: the terms of their proofs.

Predicted: the parts of the analyst's own predicted variance; what the replies do not tell apart goes to the vectors, so
that the parts add up to the whole. Realised, from the inputs: one perfect answer after the other is put in place of a
noisy one, from the truth to the estimate, so that the errors add up to estimate minus truth.
"""

from typing import Any

from parley.emulator.protocol import Broadcast, Inputs, Protocol
from parley.emulator.tally import Tally
from parley.protocols.pairwise import Pairwise

Heard = tuple[tuple[Broadcast, Tally], ...]
Sources = dict[str, float]


def predicted(protocol: Protocol, heard: Heard, rmse: float) -> Sources | None:
    """Variance of the estimate by source; None where nobody worked that out."""
    if isinstance(protocol, Pairwise) and protocol.script:
        sources: Sources | None = protocol.planning.error_sources(_new(protocol, heard), rmse)
        return sources
    return None


def _new(protocol: Protocol, heard: Heard) -> tuple[Any, ...]:
    from parley.emulator.protocol import Heard as NewHeard

    return tuple(
        NewHeard(public, step.sends(public), tally)
        for step, (public, tally) in zip(protocol.rounds, heard, strict=True)
    )


def realised(protocol: Protocol, heard: Heard, inputs: Inputs) -> Sources | None:
    """Signed error of the estimate by source; None where nobody worked that out."""
    if isinstance(protocol, Pairwise) and protocol.script:
        errors: Sources | None = protocol.planning.realised_errors(_new(protocol, heard), inputs)
        return errors
    return None
