"""What must hold in every state of a small world, whatever the schedule.

- One draw: nobody says two things where one may be said. A node's replies in a round are a function of one question.
- What is on record was said by whom it names, and nobody heard what is not on record.
- The exact loss of every user, computed from the record by the audit, is within the claim.
- A result is that of the quiet run, to the last bit.
- Nobody stops without cause: only a state that was cut in the middle of an entry is refused.
- At the end the record is closed; with a result, the whole audit passes.

That the world goes on, and comes to an end without further faults, is for the exploration to see.
"""

from collections.abc import Mapping
from pathlib import Path

from parley.emulator.audit.privacy import check_privacy
from parley.emulator.audit.report import audit
from parley.emulator.errors import LocalProtocolError
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import listen
from parley.emulator.simulate import conversation
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode
from parley.launch.testkit.world.network import REPEATED, World
from parley.launch.testkit.world.processes import RUN, Parties, Records
from parley.launch.testkit.world.steps import ANALYST, BOARD, Company, Standing, Word

TORN = "cut or altered"


class Invariants:
    """Judges states; what it has judged once it does not judge again."""

    def __init__(self, company: Company, folder: Path, *, lies: bool = False) -> None:
        self.company, self._lies = company, lies
        self._file = folder / "judged"
        self.quiet = quiet_result(company.parties)
        self._judged: dict[tuple[object, ...], str] = {}
        self._with_words: dict[frozenset[int], int] = {}

    def wrong(self, world: World) -> str:
        """What is wrong with a state; empty if nothing is."""
        board, analyst = world.standings[BOARD], world.standings[ANALYST]
        return (
            self._once(("words", world.words))
            or self._once(("record", board, world.words))
            or self._once(("result", board))
            or self._once(("privacy", board))
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
        said = dict[tuple[str, tuple[str, int, int]], Word]()
        for each in words:
            word = self.company.words[each]
            before = said.setdefault((word.speaker, word.place), word)
            if before != word:
                return _twice(before, word)
        return ""

    def _record(self, number: int, words: tuple[int, ...]) -> str:
        for each in self.company.standings[number].records:
            word = self.company.parcels[each].word
            if word is not None and word not in words:
                return f"the record holds {self.company.words[word]}, which was never said"
        return ""

    def _result(self, number: int) -> str:
        replies = set[int]()
        for each in self.company.standings[number].records:
            parcel = self.company.parcels[each]
            if isinstance(parcel.message, wire.Result) and encode(parcel.message) != encode(self.quiet):
                given = f"{parcel.message.estimate!r} of {parcel.message.replied} replies"
                return f"the result is {given}, in the quiet run {self.quiet.estimate!r} of {self.quiet.replied}"
            if isinstance(parcel.message, wire.Replies) and parcel.word is not None:
                if parcel.word in replies:
                    return f"the record holds {self.company.words[parcel.word]} twice"
                replies.add(parcel.word)
        return ""

    def _privacy(self, number: int) -> str:
        parcels = (self.company.parcels[each] for each in self.company.standings[number].records)
        words = frozenset(each.word for each in parcels if each.word is not None)
        # Records with the same words on them cause the same loss.
        return self._once(("loss", words, self._with_words.setdefault(words, number)))

    def _loss(self, words: frozenset[int], number: int) -> str:
        if not any(self.company.words[each].place[0] == "replies" for each in words):
            return ""
        self._file.write_bytes(self.company.standings[number].disk)
        verdict = check_privacy(listen(self._file, self._build))
        return f"privacy: {verdict.reason}" if verdict.verdict == "fail" else ""

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
        on_record = any(
            self.company.parcels[each].frame == parcel.frame for each in self.company.standings[board].records
        )
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
    """The result of the run in which nothing goes wrong."""
    said = conversation(
        parties.protocol, parties.inputs, parties.key, run=RUN, nodes=parties.nodes, chunk=parties.chunk
    )
    for _, message in said:
        if isinstance(message, wire.Result):
            return message
    raise LocalProtocolError(f"the quiet run of {parties.protocol.name} has no result")


def _twice(one: Word, other: Word) -> str:
    kind, number, _ = one.place
    if kind != "replies":
        return f"{one.speaker} said two different things as {kind} {number}"
    same = one.content[: wire.DIGEST_BYTES] == other.content[: wire.DIGEST_BYTES]
    what = "gave two different replies to one question" if same else "answered two questions"
    return f"{one.speaker} {what} in round {number}"


def _cause(reason: str) -> str:
    for part in ("joined", "answered", "said nothing", "no usable reply"):
        if part in reason:
            return {
                "joined": "not all joined",
                "answered": "not all answered",
                "said nothing": "the analyst was silent",
            }.get(part, part)
    return reason
