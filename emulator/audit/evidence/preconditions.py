"""What a check needs before it can be made. Where that is missing, it says why and gives no verdict of its own."""

from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Claim, Protocol
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Setup

# A row of likelihoods, and the vectors a round computes for all k inputs, must fit memory whatever a setup says.
MOST_INPUTS = 2**13


class NotTested(ParleyError):
    """A check that cannot be made, and why."""


def spoken(conversation: Conversation) -> tuple[Setup, Protocol]:
    """What was set up."""
    if conversation.setup is None or conversation.protocol is None:
        raise NotTested(conversation.unbuilt)
    return conversation.setup, conversation.protocol


def few_enough(protocol: Protocol) -> None:
    """The likelihoods of all inputs fit into memory."""
    if protocol.inputs > MOST_INPUTS:
        raise NotTested(f"{protocol.inputs} inputs are more than the {MOST_INPUTS} an exact audit can handle")


def given(witness: Witness | None) -> Witness:
    """The witness."""
    if witness is None:
        raise NotTested("there is no witness, so the inputs are not known")
    return witness


def belongs(witness: Witness, setup: Setup) -> None:
    """The witness is that of the run."""
    if witness.run != setup.run:
        raise NotTested(f"the witness belongs to the run {witness.run}, the transcript to {setup.run}")


def knows_everybody(witness: Witness, conversation: Conversation) -> Protocol:
    """The witness holds a possible input of everybody who replied."""
    setup, protocol = spoken(conversation)
    few_enough(protocol)
    belongs(witness, setup)
    inputs = witness.inputs
    if len(inputs) and not 0 <= int(inputs.min()) <= int(inputs.max()) < protocol.inputs:
        raise NotTested(f"the witness holds inputs outside 0..{protocol.inputs - 1}")
    if conversation.highest >= len(inputs):
        raise NotTested(f"the witness knows {len(inputs)} users, the record more")
    return protocol


def claims_otherwise(setup: Setup, claim: Claim) -> str:
    """What is wrong with a setup that does not claim what its protocol is; empty where it does."""
    if (setup.epsilon, setup.delta) == (claim.epsilon, claim.delta):
        return ""
    return (
        f"the setup claims epsilon {setup.epsilon:g} and delta {setup.delta:g}, but its protocol gives "
        f"{claim.epsilon:g} and {claim.delta:g}"
    )
