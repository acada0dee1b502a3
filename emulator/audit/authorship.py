"""Authorship: who said what, proven by signatures under keys that do not come from the record.

Nodes sign what they answer and which question they answer, the analyst signs what it asks, and the board signs the head
of the tree over everything on record. A record that passes was not changed by anybody without these keys, but for the
title in its header, which nobody signs; where the run took place shows in the times under the signed heads. It does
not show that a board and a node which both lie kept to the truth; and whoever chooses the list of keys chooses who
speaks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.emulator.audit.integrity import Heads, kind_of_board, senders_of
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.coins import question_of, terms_of
from parley.emulator.cores import in_order
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.question import FIELD, Question, question_in, unlike
from parley.emulator.record.records import MEMORY, Closing, Record, medium
from parley.emulator.roles.board import BOARD_NAME, BoardRole
from parley.emulator.roles.shards.boards import ShardBoardRole
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import is_signed, said_by
from parley.emulator.wire.signatures import Keys

NAMED = 20
# The header's place among the records.
HEADER = -1
# Signatures that are handed to a thread at once, and how many bytes of frames at most, which take eight times as much
# when they are read.
BATCH = 64
BATCH_BYTES = 2**18
NO_KEYS = "there is no key list from outside the record; give one with --trust FILE"
FORMAT_1 = "a record of format 1 holds no signatures"
UNSIGNED_END = (
    "the board did not sign the end of the record: it was closed by somebody else, as the launcher does after a crash, "
    "and records may be missing at its end"
)
ANONYMOUS = "only the shuffler's batch is signed: nobody can prove who sent which reply, by design"


def author_of(sender: str, message: wire.Message) -> str | None:
    """Who must have signed a message; nobody signs the events of nodes and of the launcher."""
    if isinstance(message, wire.Event) and sender != BOARD_NAME:
        return None
    return sender if isinstance(message, wire.Abort) else senders_of(message)[0]


@dataclass(frozen=True)
class Fault:
    """One thing that its author did not say, or said about another record than this one."""

    record: int | None
    what: str

    def __str__(self) -> str:
        where = {None: "the closing record", HEADER: "the header"}.get(self.record, f"record {self.record}")
        return f"{where}: {self.what}"


@dataclass(frozen=True, eq=False)
class Claim:
    """A frame that somebody must have signed; `unlike` says what is wrong with the record if that is true."""

    record: int
    author: str
    key: bytes
    frame: bytes
    message: wire.Message
    nonces: tuple[bytes, ...]
    unlike: str

    def fault(self) -> Fault | None:
        if not any(said_by(self.key, self.frame, self.message, nonce) for nonce in self.nonces):
            how = "did not sign it" if is_signed(self.frame) else "signed nothing"
            return Fault(self.record, f"a forged {_named(self.message)}: {self.author} {how}")
        return Fault(self.record, self.unlike) if self.unlike else None


@dataclass
class Reading:
    """Goes through the record once: who must have signed what, and what signed words say about each other."""

    keys: Keys
    run: str
    closing: Closing | None
    board: type[BoardRole] = BoardRole
    nonce: bytes = b""
    heads: Heads = field(default_factory=Heads)
    faults: list[Fault] = field(default_factory=list)
    authors: set[str] = field(default_factory=set)
    signatures: int = 0
    unsigned_events: int = 0
    ended_by_board: bool = True
    domain: Mapping[str, Any] | None = None
    _terms: bytes = b""
    _questions: dict[int, bytes] = field(default_factory=dict)

    def take(self, record: Record, message: wire.Message) -> Claim | None:
        """The signature that this record must bear, if it must bear one."""
        unlike = self.heads.take(record, message) or self._unlike(message)
        author = author_of(record.sender, message)
        if author is None:
            self.unsigned_events += 1
            return None
        if self._is_last_word_of_another(record, message):
            self.ended_by_board = False
            return None
        key = self.keys.get(author)
        if key is None:
            self._accuse(record.sequence, f"no key is listed for {author}")
            return None
        if record.sender != author:
            self._accuse(record.sequence, f"a {message.kind} of {author} from {record.sender}")
        if isinstance(message, wire.Ready | wire.Shard) and message.key != key:
            self._accuse(record.sequence, f"{author} came with a foreign key, not with the one listed for it")
            return None
        self.signatures += 1
        self.authors.add(author)
        nonces = (self.nonce, b"") if isinstance(message, wire.Refusal) and self.nonce else (self.nonce,)
        return Claim(record.sequence, author, key, record.frame, message, nonces, unlike)

    def _accuse(self, record: int | None, what: str) -> None:
        self.faults.append(Fault(record, what))

    def end(self) -> None:
        """The closing record: signed by the board, over the head of everything before it."""
        if self.closing is None or not self.closing.signature:
            self.ended_by_board = False
            return
        key = self.keys.get(BOARD_NAME, b"")
        if not self.closing.said_by(key, self.nonce):
            self._accuse(None, f"the board did not sign this end; {self.heads.rewritten('the end')}")
            return
        self.signatures += 1
        wrong = self.heads.end(self.closing)
        if wrong:
            self._accuse(None, wrong)

    def _unlike(self, message: wire.Message) -> str:
        """What is wrong with the record if its author really said this: the other words must fit it."""
        named = getattr(message, "run", self.run)
        if named != self.run and not (isinstance(message, wire.Ready) and named == ""):
            return f"a {_named(message)} of the run {named}, where the header names {self.run}"
        if isinstance(message, wire.Roster):
            self.nonce = message.nonce
            drawn = message.nonce or self.board is ShardBoardRole
            return "" if drawn else "the board drew no nonce, so signatures of another run would fit"
        if isinstance(message, wire.Setup):
            self._terms = self._terms or terms_of(message)
            # A shard's users hear the nonce of the run with its setup.
            self.nonce = message.nonce if self.board is ShardBoardRole else self.nonce
            self.domain = message.domain if self.domain is None else self.domain
            return "" if message.nonce == self.nonce else "the analyst's setup is for another roster than this one"
        if isinstance(message, wire.Abort) and message.nonce != self.nonce:
            return "an abort bound to another nonce than that of the roster"
        if isinstance(message, wire.Announce):
            self._questions.setdefault(message.round, question_of(self._terms, message))
        if isinstance(message, wire.Replies | wire.Tally) and message.question != self._questions.get(message.round):
            return f"{message.node} answered a different question in round {message.round} than the one on record"
        return ""

    def _is_last_word_of_another(self, record: Record, message: wire.Message) -> bool:
        """The launcher writes the last word of a board that has died, and cannot sign it."""
        return (
            isinstance(message, wire.Abort)
            and record.sender == BOARD_NAME
            and self.closing is not None
            and not self.closing.signature
            and record.sequence == self.closing.records - 1
            and not is_signed(record.frame)
        )


def check_authorship(conversation: Conversation, keys: Keys | None, authors: set[bytes] | None = None) -> Verdict:
    """Everything that must be signed is, by whom the list of keys names, and fits together.

    `authors` collects the keys of those who signed.
    """
    if keys is None:
        return unknown(NO_KEYS)
    if conversation.format == 1:
        return unknown(FORMAT_1)
    reader = conversation.reader
    reading = Reading(keys=keys, run=reader.run, closing=reader.closing, board=kind_of_board(reader))
    taken = (reading.take(*each) for each in conversation.messages("authorship"))
    batches = _batches(claim for claim in taken if claim is not None)
    # On all cores: the library lets go of the interpreter while it verifies.
    found = in_order(lambda claims: [claim.fault() for claim in claims], batches)
    forged = [fault for _, faults in found for fault in faults if fault is not None]
    reading.end()
    if authors is not None:
        authors |= {keys[each] for each in reading.authors}
    header = conversation.reader.header
    question: Question = {} if reading.domain is None else question_in(header)
    protocol = conversation.protocol
    levels = () if protocol is None else protocol.column_levels
    if question and (other := unlike(question, reading.domain or {}, levels)):
        reading.faults.append(Fault(HEADER, f"it names {other} than the setup that the analyst signed"))
    faults = sorted([*reading.faults, *forged], key=lambda fault: (fault.record is None, fault.record or 0))
    anonymous = SHUFFLER_NAME in {seat.node for seat in conversation.seats}
    evidence = {
        "medium": medium(conversation.reader.header),
        "signatures": reading.signatures,
        "authors": len(reading.authors),
        "heads": reading.heads.count,
        "unsigned_events": reading.unsigned_events,
        "faults": [vars(each) for each in faults[:NAMED]],
        **({"unsigned_title": question["title"]} if question else {}),
        **({"meaning": ANONYMOUS} if anonymous else {}),
    }
    if faults:
        more = f"; {len(faults) - 1} more" if len(faults) > 1 else ""
        return failed(f"{faults[0]}{more}", **evidence)
    known = {"run", *(["medium"] if medium(header) == MEMORY else []), *([FIELD] if question else [])}
    extra = sorted(set(header) - known)
    if extra:
        return unknown(f"the header also holds {', '.join(extra)}, which nobody signed", **evidence)
    if not reading.ended_by_board:
        return unknown(UNSIGNED_END, **evidence)
    return passed(**evidence)


def _batches(claims: Iterator[Claim]) -> Iterator[list[Claim]]:
    batch: list[Claim] = []
    size = 0
    for claim in claims:
        batch.append(claim)
        size += len(claim.frame)
        if len(batch) == BATCH or size > BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _named(message: wire.Message) -> str:
    if isinstance(message, wire.Replies):
        return f"reply of {message.node} in round {message.round}"
    if isinstance(message, wire.Announce):
        return f"broadcast of round {message.round}"
    if isinstance(message, wire.Close):
        return f"close of round {message.round}"
    if isinstance(message, wire.Ready | wire.Refusal):
        return f"{message.kind} of {message.node}"
    return message.kind
