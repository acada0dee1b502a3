"""Judges every state of a small world, and how its runs end.

To the rules of `invariants.py` come those about a state between two steps:

- Nobody heard what is not on record.
- Nobody stops without cause: only a state that was cut in the middle of an entry is refused.
- At the end the record is closed; with a result, the whole audit passes.

That the world goes on, and comes to an end without further faults, is for the exploration to see.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from parley.emulator.audit.report import audit
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.simulate import conversation, result_of
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import open_envelope
from parley.launch.testkit.invariants import Rules, Violation, questions
from parley.launch.testkit.world.network import REPEATED, World
from parley.launch.testkit.world.parties import RUN, Parties
from parley.launch.testkit.world.processes import Records
from parley.launch.testkit.world.steps import ANALYST, BOARD, Company, Standing

TORN = "cut or altered"


class Judge:
    """Judges states; what it has judged once it does not judge again."""

    def __init__(self, company: Company, folder: Path, *, lies: bool = False) -> None:
        self.company, self._lies = company, lies
        self._file = folder / "judged"
        parties = company.parties
        self._rules = Rules(parties.protocol, parties.inputs, parties.key, quiet_result(parties))
        self._asked: dict[bytes, wire.Announce] = {}
        self._judged: dict[tuple[object, ...], str] = {}

    def wrong(self, world: World) -> str:
        """What is wrong with a state; empty if nothing is."""
        board, analyst = world.standings[BOARD], world.standings[ANALYST]
        return (
            self._once(("words", world.words))
            or self._once(("record", board, world.words))
            or self._once(("heard", board, analyst))
            or next((wrong for each in world.flight if (wrong := self._once(("flight", board, each)))), "")
            or next((wrong for each in world.standings if (wrong := self._once(("stopped", each)))), "")
        )

    def outcome(self, world: World) -> tuple[str, str]:
        """How a run ended, and what is wrong with that, if anything is."""
        board = self.company.standings[world.standings[BOARD]]
        last = self._messages(board)[-1:]
        gone = sum(self.company.standings[each].is_gone for each in world.standings)
        ending = "no end" if not last else last[0].kind
        if isinstance(last[0] if last else None, wire.Result):
            ending = "the quiet result"
        elif last and isinstance(last[0], wire.Abort):
            ending = f"a clean end: {_cause(last[0].reason)}"
        wrong = self._once(("ended", board.number))
        return ending + (f", {gone} stopped for good" if gone else ""), wrong

    def _once(self, question: tuple[object, ...]) -> str:
        found = self._judged.get(question)
        if found is None:
            kind, *given = question
            found = self._judged[question] = getattr(self, f"_{kind}")(*given)
        return found

    def _words(self, words: tuple[int, ...]) -> str:
        said = [self.company.parcels[self.company.spoken[each]].message for each in words]
        if any(isinstance(each, wire.Replies) and each.question not in self._asked for each in said):
            # Liars ask too, and what they say is never on its way to the board.
            self._asked = questions(parcel.message for parcel in self.company.parcels)
        return _first(self._rules.said(said, self._asked))

    def _record(self, number: int, words: tuple[int, ...]) -> str:
        parcels = [self.company.parcels[each] for each in self.company.standings[number].records]
        known = [(each.word, each.message) for each in parcels if each.word is not None]
        return _first(self._rules.recorded(known, words, fewer=False))

    def _heard(self, board: int, analyst: int) -> str:
        heard = [
            sealed
            for each in self.company.standings[analyst].heard
            if isinstance(each, Records)
            for sealed in each.sealed
        ]
        records = [self.company.parcels[each].frame for each in self.company.standings[board].records[: len(heard)]]
        return "" if heard == records else "the analyst heard what is not on record"

    def _flight(self, board: int, number: int) -> str:
        parcel = self.company.parcels[number]
        if parcel.to < 2 or parcel.is_lie or not isinstance(parcel.message, REPEATED):
            return ""
        # A shuffler puts what it passes on into an envelope of its own.
        said = open_envelope(parcel.frame)[2]
        records = (self.company.parcels[each] for each in self.company.standings[board].records)
        on_record = any(open_envelope(each.frame)[2] == said for each in records)
        return "" if on_record else f"{parcel.label} is on its way and not on record"

    def _stopped(self, number: int) -> str:
        standing = self.company.standings[number]
        if self._lies or not standing.is_gone or TORN in standing.ended:
            return ""
        return f"{self.company.everybody[standing.who]} {standing.ended}"

    def _ended(self, number: int) -> str:
        board = self.company.standings[number]
        self._file.write_bytes(board.disk)
        public = self.company.parties.public or None
        report = audit(self._file, self._build, keys=public)
        # Whoever was lied to signed its refusal for another nonce, and the audit says so.
        named = [name for name in report.named("fail") if not (self._lies and name == "authorship")]
        failed = {name: report.verdicts[name].reason for name in named}
        if failed:
            return f"the audit fails: {failed}"
        has_result = any(isinstance(each, wire.Result) for each in self._messages(board))
        if has_result and not self._lies and not report.ok:
            return f"the audit does not pass: {report.record()}"
        return ""

    def _messages(self, board: Standing) -> list[wire.Message]:
        return [self.company.parcels[each].message for each in board.records]

    def _build(self, name: str, parameters: Mapping[str, object]) -> Protocol:
        return self.company.parties.protocol


def quiet_result(parties: Parties) -> wire.Result:
    """The result of the run in which nothing goes wrong; BadInput where even that ends without one."""
    said = conversation(
        parties.protocol, parties.inputs, parties.key, run=RUN, nodes=parties.nodes, chunk=parties.chunk
    )
    try:
        return result_of(said)
    except LocalProtocolError as error:
        # A protocol that splits users may have nobody to ask in some round.
        raise BadInput(f"{error!s}; give more users") from error


def _first(violations: Iterable[Violation]) -> str:
    return next(map(str, violations), "")


def _cause(reason: str) -> str:
    for part in ("joined", "answered", "said nothing", "no usable reply"):
        if part in reason:
            return {
                "joined": "not all joined",
                "answered": "not all answered",
                "said nothing": "the analyst was silent",
            }.get(part, part)
    return reason
