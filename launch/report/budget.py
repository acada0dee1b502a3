"""Where the error comes from: what is predicted for each source, and what each did in this run.

A protocol may say so itself, with two methods; for those that come with Parley `sources` knows.

- `error_budget() -> Mapping[str, float]`: source -> variance it is predicted to add to the estimate.
- `realised_errors(heard, inputs) -> Mapping[str, float]`: source -> signed error it did add, given what the analyst
  heard (each round's broadcast and tally) and the users' inputs. The errors add up to estimate minus truth.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from parley.emulator.audit.evidence.answers import tallies
from parley.emulator.audit.evidence.conversation import Conversation
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Result
from parley.launch.report.words import cut
from parley.protocols.planning.error_sources import Heard, predicted, realised

SOURCES = 12


def error_budget(conversation: Conversation, witness: Witness | None) -> dict[str, Any]:
    """Sources with predicted standard deviation and, with the witness, realised error; or why there are none."""
    protocol, ending = conversation.protocol, conversation.ending
    if protocol is None or not isinstance(ending, Result):
        return {"sources": [], "reason": "there is no answer of a known protocol on record"}
    try:
        heard = _heard(protocol, conversation)
        expected = _predicted(protocol, heard, ending)
        found = {} if witness is None else _realised(protocol, heard, witness)
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


def _predicted(protocol: Protocol, heard: Heard, result: Result) -> dict[str, float]:
    own = getattr(protocol, "error_budget", None)
    return _finite(own() if own is not None else predicted(protocol, heard, result.predicted_rmse) or {})


def _realised(protocol: Protocol, heard: Heard, witness: Witness) -> dict[str, float]:
    own = getattr(protocol, "realised_errors", None)
    found = own(heard, witness.inputs) if own is not None else realised(protocol, heard, witness.inputs)
    return _finite(found or {})


def _heard(protocol: Protocol, conversation: Conversation) -> Heard:
    """What the analyst heard: each round's broadcast and the sums over the replies it used."""
    public, sums = conversation.broadcasts(), tallies(conversation, protocol)
    if len(sums) != len(protocol.rounds):
        raise ValueError(f"{len(sums)} of {len(protocol.rounds)} rounds were answered")
    return tuple((public[number], sums[number]) for number in sorted(sums))


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items() if np.isfinite(value)}
