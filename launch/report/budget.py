"""Where the error comes from: what is predicted for each source, and what each did in this run.

A protocol may say so itself, with two methods; for those that come with Parley their planning says so.

- `error_budget() -> Mapping[str, float]`: source -> variance it is predicted to add to the estimate.
- `realised_errors(heard, inputs) -> Mapping[str, float]`: source -> signed error it did add, given what the analyst
  heard (each round's broadcast and tally) and the users' inputs. The errors add up to estimate minus truth.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Heard
from parley.emulator.record.conversation import Conversation, tallies
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Result
from parley.launch.report.words import cut

SOURCES = 12


def error_budget(conversation: Conversation, witness: Witness | None) -> dict[str, Any]:
    """Sources with predicted standard deviation and, with the witness, realised error; or why there are none."""
    protocol, ending = conversation.protocol, conversation.ending
    if protocol is None or not isinstance(ending, Result):
        return {"sources": [], "reason": "there is no answer of a known protocol on record"}
    planning, found = getattr(protocol, "planning", None), dict[str, float]()
    try:
        asked, sums = conversation.questions, tallies(conversation, protocol)
        if len(sums) != len(protocol.rounds):
            raise ValueError(f"{len(sums)} of {len(protocol.rounds)} rounds were answered")
        # What the analyst heard of each round.
        heard = tuple(
            Heard(said := asked[each.number].broadcast, each.sends(said), sums[each.number]) for each in protocol.rounds
        )
        if (own := getattr(protocol, "error_budget", None)) is not None:
            expected = _finite(own())
        else:
            expected = _finite(getattr(planning, "error_sources", _nothing)(heard, ending.predicted_rmse) or {})
        if witness is not None:
            realised: Any = getattr(protocol, "realised_errors", getattr(planning, "realised_errors", _nothing))
            found = _finite(realised(heard, witness.inputs) or {})
    except (ParleyError, ArithmeticError, ValueError, KeyError, IndexError) as error:
        return {"sources": [], "reason": cut(f"the error budget cannot be computed: {error}")}
    if not expected:
        return {"sources": [], "reason": "the protocol does not say where its error comes from"}
    rows = [
        {
            "source": cut(name, 64),
            "predicted": math.sqrt(max(0.0, expected[name])) if name in expected else None,
            "realised": found.get(name),
        }
        for name in list(dict.fromkeys([*expected, *found]))[:SOURCES]
    ]
    return {"sources": rows, "reason": ""}


def _nothing(*given: object) -> None:
    """Of a protocol that nobody has worked the sources out for."""


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items() if np.isfinite(value)}
