"""What a check says, why, and the evidence for it; and what a check needs before it can say anything."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Broadcast, Claim, Inputs, Protocol
from parley.emulator.record.conversation import MOST_INPUTS, Conversation, fits
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Setup

Outcome = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check's answer. What is not a pass has a reason, one sentence that a person can act on."""

    verdict: Outcome
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As JSON: verdict, reason where there is one, evidence. What is not finite becomes null."""
        reason = {"reason": self.reason} if self.reason else {}
        return {"verdict": self.verdict, **reason, **{name: as_json(value) for name, value in self.evidence.items()}}


def passed(**evidence: Any) -> Verdict:
    return Verdict(verdict="pass", evidence=evidence)


def failed(reason: str, **evidence: Any) -> Verdict:
    return Verdict(verdict="fail", reason=reason, evidence=evidence)


def unknown(reason: str, **evidence: Any) -> Verdict:
    return Verdict(verdict="unknown", reason=reason, evidence=evidence)


def as_json(value: Any) -> Any:
    """Maps and lists all the way down, and null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class NotTested(ParleyError):
    """A check that cannot be made, and why."""


def spoken(conversation: Conversation, *, exact: bool = False) -> tuple[Setup, Protocol]:
    """What was set up. With `exact`, the likelihoods of all inputs that replies tell apart must fit into memory."""
    if conversation.setup is None or conversation.protocol is None:
        raise NotTested(conversation.unbuilt)
    inputs = len(stand_ins(conversation, conversation.protocol)) if exact else 0
    if exact and inputs > MOST_INPUTS:
        raise NotTested(f"{inputs} inputs are more than the {MOST_INPUTS} an exact audit can handle")
    return conversation.setup, conversation.protocol


def stand_ins(conversation: Conversation, protocol: Protocol) -> Inputs:
    """The inputs that stand for all, after what was broadcast in this run."""
    said: dict[int, list[Broadcast]] = {}
    for announce in conversation.announces:
        if not fits(protocol, announce):
            said.setdefault(announce.round, []).append(announce.broadcast)
    return protocol.representatives(said)


def witnessed(witness: Witness | None, conversation: Conversation, *, exact: bool = False) -> tuple[Protocol, Witness]:
    """The protocol, and the witness of this run. With `exact`, it must hold a possible input of all who replied."""
    if witness is None:
        raise NotTested("there is no witness, so the inputs are not known")
    setup, protocol = spoken(conversation, exact=exact)
    if witness.run != setup.run:
        raise NotTested(f"the witness belongs to the run {witness.run}, the transcript to {setup.run}")
    inputs = witness.inputs
    if exact and len(inputs) and not 0 <= int(inputs.min()) <= int(inputs.max()) < protocol.inputs:
        raise NotTested(f"the witness holds inputs outside 0..{protocol.inputs - 1}")
    if exact and conversation.highest >= len(inputs):
        raise NotTested(f"the witness knows {len(inputs)} users, the record more")
    return protocol, witness


def claims_otherwise(setup: Setup, claim: Claim) -> str:
    """What is wrong with a setup that does not claim what its protocol is; empty where it does."""
    if (setup.epsilon, setup.delta) == (claim.epsilon, claim.delta):
        return ""
    said = f"the setup claims epsilon {setup.epsilon:g} and delta {setup.delta:g}, but its protocol gives"
    return f"{said} {claim.epsilon:g} and {claim.delta:g}"
