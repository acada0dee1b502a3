"""Attacks by everything else a node hears: endings, forgeries, noise, reminders and receipts of others."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from parley.emulator.wire.codec import encode, envelope
from parley.emulator.wire.messages import Close, Event, Message, Ready, Reminder, Resume, Roster
from parley.emulator.wire.signatures import Signer
from tests.attacks.parties import (
    ANALYST,
    BOARD,
    NODE,
    NONCE,
    OWN,
    RUN,
    SHUFFLER,
    STRANGER,
    Ledger,
    abort,
    result,
    summed,
)
from tests.attacks.stage import Batches, Stage
from tests.attacks.table import OTHER, attack, harmless


@attack("none", refuses=False, code=None)
def endings_before_the_setup(stage: Stage) -> Batches:
    for run in (RUN, "another"):
        yield [stage.said(result(run), nonce=nonce) for nonce in (b"", NONCE, OTHER)]
    yield [stage.said(abort("another", nonce), BOARD) for nonce in (b"", NONCE, OTHER)]


@harmless
def old_aborts_of_a_run_of_this_name_before_the_setup(stage: Stage) -> Batches:
    """Whose seat it is says which nonce the run has, and that is said before the setup is."""
    yield [stage.said(abort(nonce=nonce), BOARD) for nonce in (b"", OTHER)]
    yield from stage.seat()
    yield from stage.rounds(1)
    yield from stage.end()


@harmless
def an_old_setup_of_a_run_of_this_name_before_the_setup(stage: Stage) -> Batches:
    yield from stage.seat(replace(stage.setup, nonce=OTHER))
    yield [stage.said(stage.announces[0], nonce=OTHER)]
    yield from stage.seat()
    yield from stage.rounds(1)
    yield from stage.end()


@attack("none", refuses=False, code=3)
def an_abort_before_the_setup(stage: Stage) -> Batches:
    """Who has heard no setup must not wait for a run that is over."""
    yield [stage.said(abort(), BOARD)]
    yield from stage.seat()
    yield from stage.rounds(1)


@harmless
def endings_that_are_forged(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        for signer in (None, STRANGER, OWN, SHUFFLER):
            yield [stage.said(result(), signer), stage.said(abort(), signer)]
        yield [stage.said(result(), BOARD), stage.said(result(), nonce=OTHER), stage.said(result("another"))]
        yield [stage.said(abort("another"), BOARD)]
        yield [stage.said(abort(nonce=nonce), signer) for signer in (BOARD, ANALYST) for nonce in (OTHER, b"")]
        yield from stage.ask(number)
    yield from stage.end()


@attack("none", refuses=False, code=0)
def a_result_before_any_question(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.end()


@attack("before", refuses=False, code=3)
def an_end_before_the_last_question(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.rounds(1, stage.last - 1)
    yield [stage.said(abort(), BOARD)]
    yield from stage.rounds(stage.last)


@harmless
def everything_unsigned_or_signed_by_others(stage: Stage) -> Batches:
    """Before each honest word the same word without a signature, and with every signature but the right one."""

    def forged(message: Message) -> Batches:
        wrong: list[Signer | None] = [None, STRANGER, OWN, BOARD, SHUFFLER]
        yield [stage.said(message, signer, nonce) for signer in wrong for nonce in (NONCE, b"")]
        if message.kind != "setup":
            yield [stage.said(message, nonce=nonce) for nonce in (b"", OTHER)]
        frame = encode(message, ANALYST, NONCE)[:-4]
        yield [envelope(0, "analyst", summed(frame[:-1] + bytes([frame[-1] ^ 1])))]

    yield from forged(stage.setup)
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield from forged(stage.announces[number - 1])
        yield from forged(replace(stage.announces[number - 1], broadcast={"mu": np.zeros(2)}))
        yield from stage.ask(number)
    yield from forged(result())
    yield from stage.end()


@attack("all", refuses=True, code=0)
def frames_that_are_no_messages(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        for body in (
            b"\xc1",
            b"\x90",
            b"\x91\xcc\xff",
            b"\x91" * 100_000,
            b"\xdd\xff\xff\xff\xff",
            b"\xdf\xff\xff\xff\xff",
            b"\xc7\xff\x01",
            b"\x93\x03\xa1x\x01",
            encode(stage.announces[0])[:-4] + b"\0",
            encode(stage.announces[0], ANALYST, NONCE)[:-5],
        ):
            yield [envelope(0, "analyst", summed(body))]
        yield from stage.ask(number)
    yield from stage.end()


@harmless
def envelopes_that_are_none(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        for sealed in (b"", b"\0", bytes(4), bytes(5), bytes(1000), b"noise", summed(b"\x93\x00\x00\x00"), summed(b"")):
            yield [sealed]
        good = stage.said(stage.announces[number - 1])
        yield [good[:-1], good + b"\0", good[: len(good) // 2], summed(good), bytes([good[0] ^ 1]) + good[1:]]
        yield [envelope(0, "analyst", frame) for frame in (b"", b"\0\0\0\0", b"noise", bytes(64))]
        yield from stage.ask(number)
    yield from stage.end()


@harmless
def messages_that_are_none_of_its_business(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(Ready(node=NODE, first=0, users=1, pid=1))]
        yield [stage.said(Resume(sequence=0, count=0)), stage.said(Roster(run=RUN, nodes=1, users=1, nonce=OTHER))]
        yield [stage.said(Event(event="drop", node=NODE, round=number, detail="x" * 4000))]
        yield from ([envelope(0, NODE, frame)] for frame, _ in stage.replies(number - 1))
        yield from stage.ask(number)
    yield from stage.end()


@harmless
def closes_that_are_forged(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        for signer in (None, STRANGER, ANALYST, BOARD):
            for each in (0, number, number + 1, 2**40):
                close = Close(run=RUN, round=each, replies=0, missing=0, absent=(NODE,), size=9, root=bytes(32))
                yield [stage.said(close, signer)]
        yield from stage.ask(number)
    yield from stage.end()


@attack("all", refuses=False, code=0)
def reminders_of_other_things(stage: Stage) -> Batches:
    """Whatever is asked for again, the same bytes come or nothing."""
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.announces[number - 1])]
        for missing in ({NODE: (0,)}, {NODE: (1, 2)}, {NODE: (7, 2**61)}, {NODE: (0, 0, 0)}, {NODE: ()}, {"other": ()}):
            for each in (number, number - 1, number + 1):
                yield [stage.said(Reminder(run=RUN, round=each, missing=missing), None)]
            yield [stage.said(Reminder(run="another", round=number, missing=missing), None)]
        yield from stage.account(number)
    yield from stage.end()


def _receipts(stage: Stage, tamper: Callable[[Stage, int], Batches]) -> Batches:
    """Honest rounds in which something else is shown before the honest receipt."""
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.announces[number - 1])]
        yield from tamper(stage, number)
        yield from stage.account(number)
    yield from stage.end()


@harmless
def receipts_of_others(stage: Stage) -> Batches:
    """Another run, another node, another round, a close that the board did not sign or that is none."""

    def tamper(stage: Stage, number: int) -> Batches:
        for ledger, signer in (
            (Ledger(run="another"), BOARD),
            (Ledger(nonce=OTHER), BOARD),
            (Ledger(), STRANGER),
            (Ledger(), ANALYST),
            (Ledger(), OWN),
        ):
            for frame, replies in stage.replies(number):
                ledger.hold(NODE, frame, replies)
            close = ledger.close(number, signer=signer)
            receipt = ledger.receipt(NODE, number)
            yield [stage.said(receipt, None), stage.said(replace(receipt, run=RUN), None)]
            yield [stage.said(replace(receipt, node="other"), None), stage.said(replace(receipt, round=9), None)]
            yield [stage.said(replace(receipt, close=close[:-1]), None), stage.said(replace(receipt, close=b""), None)]
        announce = encode(stage.announces[0], BOARD, NONCE)
        yield [stage.said(replace(receipt, run=RUN, close=announce), None)]

    yield from _receipts(stage, tamper)
