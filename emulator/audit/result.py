"""Result: the analyst's every word recomputed from the record, bit for bit."""

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.evidence.rounding import nearly_the_same
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.records import Record
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.wire.messages import Abort, Result, Setup

ELSEWHERE = "it was computed on another kind of processor, with another number of threads, or with other libraries"


def _another(
    conversation: Conversation,
    setup: Setup,
    protocol: Protocol,
    record: Record,
    error: Exception,
    recorded: float | None,
) -> Verdict:
    """The record holds another word than the analyst's: a lie, or rounding."""
    found = {"estimate": recorded, "record": record.sequence}
    if nearly_the_same(conversation, setup, protocol):
        reason = f"record {record.sequence} comes out the same up to rounding, not bit for bit: {ELSEWHERE}"
        return unknown(reason, **found)
    return failed(f"record {record.sequence}: {error}", **found)


def check_result(conversation: Conversation) -> Verdict:
    """A fresh analyst that hears the record must say what the record says it said."""
    setup, protocol, ending = conversation.setup, conversation.protocol, conversation.ending
    recorded = ending.estimate if isinstance(ending, Result) else None
    if setup is None or protocol is None:
        return unknown(conversation.unbuilt, estimate=recorded)
    role = AnalystRole(protocol, setup.run, setup.domain, format=conversation.format)
    with np.errstate(all="ignore"), one_thread():
        for record, message in conversation.messages():
            try:
                given_up = isinstance(message, Abort) and record.sender == ANALYST_NAME
                if given_up and not any(isinstance(each, Abort) for each in role.pending[:1]):
                    raise RemoteProtocolError("the analyst gave up without a reason")
                role.hear(message)
            except (ParleyError, ArithmeticError, ValueError) as error:
                return _another(conversation, setup, protocol, record, error, recorded)
    if not isinstance(ending, Result):
        return unknown("the record holds no result", estimate=None, rejected=role.rejected)
    return passed(estimate=recorded, replied=role.replied, rejected=role.rejected)
