"""Who may send a message, and who must have signed it."""

from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.wire.messages import Abort, Announce, Event, Message, Ready, Refusal, Replies, Result, Setup


def senders_of(message: Message) -> tuple[str, ...]:
    """Who may send a message that is on record."""
    if isinstance(message, Ready | Replies | Refusal):
        return (message.node,)
    if isinstance(message, Setup | Announce | Result):
        return (ANALYST_NAME,)
    if isinstance(message, Abort):
        return ANALYST_NAME, BOARD_NAME
    if isinstance(message, Event):
        return BOARD_NAME, message.node
    return (BOARD_NAME,)


def author_of(sender: str, message: Message) -> str | None:
    """Who must have signed a message; nobody signs the events of nodes and of the launcher."""
    if isinstance(message, Abort):
        return sender
    return None if isinstance(message, Event) and sender != BOARD_NAME else senders_of(message)[0]
