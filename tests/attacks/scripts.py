"""The attacks: each is what an adversary says to a node, and what the node then has to do.

`answers`: in which rounds the node replies ("all", "none", "before" the last, or "any" where the protocol decides).
`refuses`: whether it says so on record. `code`: how it ends; None while it still waits.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from emulator.codec import encode, envelope
from emulator.messages import Abort, Close, Event, Message, Ready, Reminder, Resume, Roster
from emulator.signing import Signer
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
    result,
    setup_of,
    spoiled,
    spoken,
    summed,
    unchecked,
)
from tests.attacks.stage import Batches, Script, Stage

Answers = Literal["all", "none", "before", "any"]
OTHER = bytes(16)


@dataclass(frozen=True)
class Attack:
    """One line of the table."""

    script: Script
    answers: Answers
    refuses: bool
    code: int | None


ATTACKS: dict[str, Attack] = {}


def attack(answers: Answers, *, refuses: bool, code: int | None) -> Callable[[Script], Script]:
    """List a script under its name."""

    def listed(script: Script) -> Script:
        ATTACKS[script.__name__] = Attack(script, answers, refuses, code)  # type: ignore[attr-defined]
        return script

    return listed


refused = attack("none", refuses=True, code=None)
harmless = attack("all", refuses=False, code=0)


@harmless
def honest(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.rounds(1)
    yield from stage.end()


@harmless
def everything_in_one_breath(stage: Stage) -> Batches:
    """A setup and its first question in one batch: the question is bound to a nonce that the setup only brings."""
    yield [sealed for batch in stage.seat() for sealed in batch] + [stage.said(stage.announces[0])]
    yield from stage.account(1)
    yield from stage.rounds(2)
    yield from stage.end()


def _terms(stage: Stage, **changed: Any) -> Batches:
    """Another setup in the place of the honest one, and then the questions as if it had been accepted."""
    yield from stage.seat(unchecked(stage.setup, **changed))  # type: ignore[arg-type]
    yield from stage.rounds(1)


@refused
def more_inputs_than_agreed(stage: Stage) -> Batches:
    larger = spoken(stage.name, inputs=8)
    yield from stage.seat(setup_of(larger))
    # The same protocol under the domain that was agreed to.
    yield from stage.seat(setup_of(larger, domain=stage.setup.domain))
    yield from stage.rounds(1)


@refused
def fewer_inputs_than_agreed(stage: Stage) -> Batches:
    smaller = spoken(stage.name, inputs=2 if stage.name != "hierarchical" else 8)
    yield from stage.seat(setup_of(smaller))
    yield from stage.seat(setup_of(smaller, domain=stage.setup.domain))
    yield from stage.rounds(1)


@refused
def another_meaning_of_the_inputs(stage: Stage) -> Batches:
    column = {"name": "age", "levels": 4, "type": "number", "low": 0.0, "high": 1.0}
    yield from _terms(stage, domain={"inputs": 4, "columns": (column,)})


@refused
def a_domain_of_another_type(stage: Stage) -> Batches:
    for inputs in (4.0, True, "4", None, (4,), {"4": 4}, np.array([4]), np.array([4, 4]), np.array(4), np.zeros(0)):
        yield from stage.seat(replace(stage.setup, domain={"inputs": inputs}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": 4, "columns": np.zeros((2, 2))}))
    yield from _terms(stage, domain={})


@refused
def another_run(stage: Stage) -> Batches:
    yield from _terms(stage, run="another")


@refused
def nonces_of_other_lengths(stage: Stage) -> Batches:
    for nonce in (b"", b"\1", bytes(8), bytes(15), bytes(17), bytes(200)):
        yield from stage.seat(unchecked(stage.setup, nonce=nonce))  # type: ignore[arg-type]
    yield from stage.rounds(1)


@refused
def another_version(stage: Stage) -> Batches:
    yield from stage.seat(replace(stage.setup, version=0))
    yield from _terms(stage, version=stage.setup.version + 1)


@refused
def epsilon_above_the_cap(stage: Stage) -> Batches:
    yield from stage.seat(setup_of(spoken(stage.name, epsilon=1.125)))
    yield from stage.rounds(1)


@refused
def delta_above_the_cap(stage: Stage) -> Batches:
    yield from _terms(stage, delta=0.5)


@refused
def claims_that_lie(stage: Stage) -> Batches:
    for changed in ({"epsilon": 0.5}, {"epsilon": 1e-320}, {"rounds": stage.last + 1}, {"rounds": 0}):
        yield from stage.seat(replace(stage.setup, **changed))
    yield from stage.seat(setup_of(spoken(stage.name, epsilon=8.0), epsilon=1.0))
    yield from stage.rounds(1)


@refused
def no_such_protocol(stage: Stage) -> Batches:
    yield from _terms(stage, protocol="no-such-protocol")


def _other_types(parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every parameter in turn left out, of another type, or beyond all bounds; those within parameters too."""
    strange = (None, -1, 0, 2**62, 1e308, 5e-324, "text", (), {}, np.zeros((2, 2)), np.array([2**63 - 1]), True)
    for name, value in parameters.items():
        yield {key: each for key, each in parameters.items() if key != name}
        yield from ({**parameters, name: each} for each in strange)
        if isinstance(value, Mapping):
            yield from ({**parameters, name: each} for each in _other_types(value))


@refused
def parameters_of_other_types(stage: Stage) -> Batches:
    """With a claim that no such protocol makes: however much of it can be built, it is refused."""
    for parameters in _other_types(stage.setup.parameters):
        yield from stage.seat(replace(stage.setup, parameters=parameters, epsilon=0.125))
    yield from stage.rounds(1)


@attack("none", refuses=True, code=3)
def an_abort_after_terms_that_were_refused(stage: Stage) -> Batches:
    """The board binds its abort to a nonce that the node has only heard from a setup it did not accept."""
    yield from stage.seat(replace(stage.setup, epsilon=0.5))
    yield [stage.said(Abort(run=RUN, outcome="failed", reason="forged"), signer) for signer in (None, STRANGER, OWN)]
    yield [stage.said(Abort(run=RUN, outcome="failed", reason="forged"), BOARD, OTHER)]
    yield from ([stage.said(each), stage.said(result())] for each in stage.announces)
    yield [stage.said(Abort(run=RUN, outcome="failed", reason="nobody answered"), BOARD)]


@refused
def words_without_end(stage: Stage) -> Batches:
    """Names and texts of the longest kind, with lines that look like those of a log."""
    line = "\n2026-01-01 00:00:00,000 the run is over\n"
    many = {f"{each:06}{line}": each for each in range(200)}
    yield from stage.seat(replace(stage.setup, parameters={**many, **stage.setup.parameters}))
    yield from stage.seat(replace(stage.setup, parameters={"workload": many}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": "1" * 4000 + line}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": 4, "columns": tuple(line * 90 for _ in range(99))}))
    yield from stage.seat(replace(stage.setup, domain={"inputs": tuple(line for _ in range(300))}))
    yield [stage.said(replace(stage.announces[0], broadcast={f"{each}{line}": np.zeros(1) for each in range(300)}))]
    yield from stage.rounds(1)


@attack("all", refuses=True, code=0)
def a_second_setup(stage: Stage) -> Batches:
    yield from stage.seat()
    yield from stage.rounds(1, stage.last - 1)
    for changed in ({"nonce": OTHER}, {"epsilon": 2.0}, {"run": "another"}, {"parameters": {}}):
        yield from stage.seat(replace(stage.setup, **changed))  # type: ignore[arg-type]
    yield from stage.rounds(stage.last)
    yield from stage.end()


@harmless
def the_setup_again_and_again(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.setup)] * 3
        yield from stage.ask(number)
    yield [stage.said(stage.setup)]
    yield from stage.end()


def _last_question(stage: Stage, *frames: bytes) -> Batches:
    """Everything honest up to the last round, which is asked with these frames."""
    yield from stage.seat()
    yield from stage.rounds(1, stage.last - 1)
    for frame in frames:
        yield [envelope(0, "analyst", frame)]
    yield [stage.said(Reminder(run=RUN, round=stage.last, missing={NODE: ()}), None)]


def _asked(stage: Stage, **broadcast: Any) -> bytes:
    return encode(replace(stage.announces[-1], broadcast=broadcast), ANALYST, NONCE)


def _floats(stage: Stage, value: float) -> dict[str, Any]:
    return {name: np.full_like(array, value) for name, array in stage.announces[-1].broadcast.items()}


@attack("before", refuses=True, code=None)
def arrays_of_another_shape(stage: Stage) -> Batches:
    honest = stage.announces[-1].broadcast
    longer = {name: np.zeros(9) for name in honest} or {"mu": np.zeros(1)}
    deeper = {name: np.zeros((4, 1)) for name in honest} or {"": np.zeros(())}
    yield from _last_question(
        stage, _asked(stage, **longer), _asked(stage, **deeper), _asked(stage, **honest, more=np.zeros(4))
    )


@attack("before", refuses=True, code=None)
def arrays_of_another_type(stage: Stage) -> Batches:
    names = list(stage.announces[-1].broadcast) or ["mu"]
    kinds = ("f4", "i8", "u1", "?", "u8")
    yield from _last_question(
        stage, *(_asked(stage, **{name: np.zeros(4, dtype=kind) for name in names}) for kind in kinds)
    )


@attack("before", refuses=True, code=None)
def numbers_that_are_not_finite(stage: Stage) -> Batches:
    wrong = (float("nan"), float("inf"), -float("inf"))
    yield from _last_question(stage, *(spoiled(stage.announces[-1], value) for value in wrong))


def _extreme(value: float) -> Script:
    def script(stage: Stage) -> Batches:
        yield from _last_question(stage, _asked(stage, **_floats(stage, value)))
        yield from stage.account(stage.last)
        yield from stage.end()

    return script


for _name, _value in {
    "numbers_that_overflow": 1e308,
    "negative_numbers_that_overflow": -1.7e308,
    "numbers_whose_squares_overflow": 1e155,
    "numbers_without_leading_digits": 5e-324,
    "numbers_whose_squares_vanish": -1e-160,
    "negative_zeros": -0.0,
}.items():
    ATTACKS[_name] = Attack(_extreme(_value), "any", False, 0)


@attack("any", refuses=False, code=0)
def one_large_number_for_each_input(stage: Stage) -> Batches:
    """Numbers that would tell the inputs apart if the answer overflowed for some of them."""
    for each in range(stage.protocol.inputs):
        arrays = {
            name: np.where(np.arange(array.size) == each, 1e308, 0.0).reshape(array.shape)
            for name, array in stage.announces[-1].broadcast.items()
        }
        yield from (
            _last_question(stage, _asked(stage, **arrays))
            if not each
            else [[envelope(0, "analyst", _asked(stage, **arrays))]]
        )
    yield from stage.account(stage.last)
    yield from stage.end()


@attack("all", refuses=True, code=0)
def rounds_that_do_not_exist(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in (0, stage.last + 1, 2**32, 2**62 - 1):
        yield [stage.said(replace(stage.announces[0], round=number))]
    yield from stage.rounds(1)
    for number in (0, stage.last + 1):
        yield [stage.said(replace(stage.announces[0], round=number))]
    yield from stage.end()


@attack("none", refuses=False, code=None)
def questions_before_the_setup(stage: Stage) -> Batches:
    for announce in stage.announces:
        yield [stage.said(announce, nonce=nonce) for nonce in (b"", NONCE)]
    yield [stage.said(Reminder(run=RUN, round=1, missing={NODE: ()}), None)]


@attack("any", refuses=False, code=None)
def the_last_round_first(stage: Stage) -> Batches:
    """Where there is one round only, it is the first, and answered."""
    yield from stage.seat()
    yield [stage.said(stage.announces[-1])]
    for number in range(1, stage.last):
        yield [stage.said(stage.announces[number - 1])]
    yield [stage.said(Reminder(run=RUN, round=stage.last, missing={NODE: ()}), None)]


@attack("all", refuses=True, code=0)
def another_question_in_the_same_round(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield from stage.ask(number)
        honest = stage.announces[number - 1]
        changed = {name: array * 0.5 for name, array in honest.broadcast.items()} or {"mu": np.zeros(1)}
        yield [stage.said(replace(honest, broadcast=changed)), stage.said(replace(honest, run="another"))]
    yield from stage.end()


@harmless
def the_same_question_again(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        yield [stage.said(stage.announces[number - 1])] * 4
        yield [stage.said(stage.announces[number - 1], nonce=NONCE)]
        yield from stage.account(number)
        yield [stage.said(stage.announces[number - 1])]
    yield from stage.end()


@attack("none", refuses=False, code=None)
def endings_before_the_setup(stage: Stage) -> Batches:
    for run in (RUN, "another"):
        yield [stage.said(result(run), nonce=nonce) for nonce in (b"", NONCE, OTHER)]
    yield [stage.said(Abort(run="another", outcome="failed", reason=""), BOARD, b"")]
    yield [stage.said(Abort(run=RUN, outcome="failed", reason=""), BOARD, OTHER)]


@harmless
def endings_that_are_forged(stage: Stage) -> Batches:
    yield from stage.seat()
    for number in range(1, stage.last + 1):
        for signer in (None, STRANGER, OWN, SHUFFLER):
            yield [stage.said(result(), signer), stage.said(Abort(run=RUN, outcome="failed", reason=""), signer)]
        yield [stage.said(result(), BOARD), stage.said(result(), nonce=OTHER), stage.said(result("another"))]
        yield [stage.said(Abort(run="another", outcome="failed", reason=""), BOARD)]
        yield [stage.said(Abort(run=RUN, outcome="failed", reason=""), BOARD, OTHER)]
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
    yield [stage.said(Abort(run=RUN, outcome="aborted", reason="enough"), BOARD)]
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
