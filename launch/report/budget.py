"""Where the error comes from: what the protocol predicts for each source, and what each did in this run.

A protocol may offer two methods; a report does without them.

- `error_budget() -> Mapping[str, float]`: source -> variance it is predicted to add to the estimate.
- `realised_errors(heard, inputs) -> Mapping[str, float]`: source -> signed error it did add, given what the analyst
  heard (each round's broadcast and tally) and the users' inputs. The errors add up to estimate minus truth.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator.audit.conversation import Conversation
from emulator.audit.privacy import answers
from emulator.errors import ParleyError
from emulator.protocol import Broadcast, Protocol, Tally
from emulator.witness import Witness
from launch.report.words import cut

SOURCES = 12


def error_budget(conversation: Conversation, witness: Witness | None) -> dict[str, Any]:
    """Sources with predicted standard deviation and, with the witness, realised error; or why there are none."""
    protocol = conversation.protocol
    predict = getattr(protocol, "error_budget", None)
    if protocol is None or predict is None:
        return {"sources": [], "reason": "the protocol does not say where its error comes from"}
    try:
        predicted = _finite(predict())
        realised = _realised(protocol, conversation, witness)
    except (ParleyError, ArithmeticError, ValueError, KeyError, IndexError) as error:
        return {"sources": [], "reason": cut(f"the error budget cannot be worked out: {error}")}
    names = list(dict.fromkeys([*predicted, *realised]))[:SOURCES]
    rows = [
        {
            "source": cut(name, 64),
            "predicted": math.sqrt(max(0.0, predicted[name])) if name in predicted else None,
            "realised": realised.get(name),
        }
        for name in names
    ]
    return {"sources": rows, "reason": ""}


def _realised(protocol: Protocol, conversation: Conversation, witness: Witness | None) -> dict[str, float]:
    explain = getattr(protocol, "realised_errors", None)
    if witness is None or explain is None:
        return {}
    heard = _heard(protocol, conversation)
    return _finite(explain(heard, witness.inputs)) if len(heard) == len(protocol.rounds) else {}


def _heard(protocol: Protocol, conversation: Conversation) -> tuple[tuple[Broadcast, Tally], ...]:
    """What the analyst heard: each round's broadcast and the sums over the replies it used."""
    heard: dict[int, tuple[Broadcast, Tally]] = {}
    for _, replies, step, public in answers(conversation, protocol):
        good = step.check(public, replies.columns) & step.speaks(replies.users)
        tally = step.tally(public, {name: column[good] for name, column in replies.columns.items()})
        before = heard.get(replies.round)
        heard[replies.round] = (public, tally if before is None else before[1] + tally)
    return tuple(heard[number] for number in sorted(heard))


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items() if np.isfinite(value)}
