"""What must hold in every run and in every state of a small world, whatever the schedule.

About what is said and recorded, said here once for the search over schedules and for the small world:

- One draw: nobody says two things where one may be said. A node's replies in a round are a function of one question.
- Every reply is the one that the witness gives for a question that the analyst asked; a shuffler's batch holds these.
- The exact loss of everything that was said is within the claim.
- What is on record was said by whom it names, and no reply is there twice.
- A result is that of the quiet run, to the last bit; where somebody was lost for good, it may be one of fewer replies.

`schedules/judge.py` adds what a run leaves on disk: a closed record, journals that hold each answered question once.
`world/judge.py` adds what can be seen between two steps: nobody hears what is not on record, and nobody stops without
cause. At the end of a run of the small world, the whole audit must pass.
"""

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from parley.emulator.audit.privacy import ROUNDING, Ledger
from parley.emulator.coins import coins, question_of, terms_of
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Array
from parley.emulator.record.conversation import Answers
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import DIGEST_BYTES, Announce, Message, Replies, Result, Setup

ONE_DRAW = "one draw for each user and round"
WITNESS = "replies are those of the witness"


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A rule that was broken, and how it shows."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


class Word(NamedTuple):
    """What somebody said at a place where only one thing may be said: a setup, a question, a reply, a result."""

    speaker: str
    place: tuple[str, int, int]
    content: bytes

    def __str__(self) -> str:
        kind, number, chunk = self.place
        return f"{kind}{f' {number}' if number else ''}{f' (chunk {chunk})' if chunk else ''} of {self.speaker}"


def word_of(message: Message) -> Word | None:
    """What a message says where only one thing may be said; None for anything else."""
    if isinstance(message, Replies):
        columns = b"".join(message.columns[name].tobytes() for name in sorted(message.columns))
        content = message.question + message.users.tobytes() + columns
        return Word(message.node, (message.kind, message.round, message.chunk), content)
    if isinstance(message, Setup | Announce | Result):
        return Word(ANALYST_NAME, (message.kind, getattr(message, "round", 0), 0), encode(message))
    return None


def questions(messages: Iterable[Message | None]) -> dict[bytes, Announce]:
    """Everything that was asked, by its digest, under each of the setups there were."""
    words = list(messages)
    terms = [terms_of(word) for word in words if isinstance(word, Setup)]
    return {question_of(each, word): word for word in words if isinstance(word, Announce) for each in terms}


class Rules:
    """The rules for runs of one protocol about the same inputs with the same key. What was checked is remembered."""

    def __init__(self, protocol: Protocol, inputs: Inputs, key: bytes, quiet: Result | None) -> None:
        """`quiet`: the result of the quiet run; None where even that has none."""
        self.protocol, self.inputs, self.key, self.quiet = protocol, inputs, key, quiet
        self._unfaithful: dict[Word, str] = {}
        self._losses: dict[frozenset[Word], float] = {}

    def said(self, messages: Iterable[Message], asked: Mapping[bytes, Announce]) -> Iterator[Violation]:
        """What nodes and analyst said: one draw, of the right coins, to questions that were asked, within the claim."""
        drawn: dict[tuple[str, tuple[str, int, int]], Word] = {}
        replies: dict[Word, Replies] = {}
        for message in messages:
            word = word_of(message)
            if word is None:
                continue
            before = drawn.setdefault((word.speaker, word.place), word)
            if before != word:
                yield Violation(rule=ONE_DRAW, what=_twice(before, word))
            if isinstance(message, Replies):
                if message.question not in asked:
                    what = f"{word.speaker} answers a question in round {message.round} that nobody asked"
                    yield Violation(rule=WITNESS, what=what)
                elif wrong := self._differs(word, message, asked[message.question]):
                    yield Violation(rule=WITNESS, what=wrong)
                if before == word:
                    replies[word] = message
        claim = self.protocol.claim
        exact = claim.trusts == "nobody" and claim.delta == 0
        if exact and (loss := self._loss(replies, asked)) > claim.epsilon + ROUNDING:
            yield Violation(rule="the exact loss is within the claim", what=f"{loss:.6g} of {claim.epsilon:g}")

    def recorded(
        self, records: Iterable[tuple[Hashable, Message | None]], said: Container[Hashable], *, fewer: bool
    ) -> Iterator[Violation]:
        """What is on record: it was said, each reply once, and a result is the quiet one.

        A record is known by what is looked for in `said`. `fewer`: a result may be one of fewer replies.
        """
        replies = set[Hashable]()
        for known, message in records:
            if known not in said:
                what = f"the record holds {(message and word_of(message)) or known}, which was never said"
                yield Violation(rule="what is on record was said", what=what)
            if isinstance(message, Replies):
                if known in replies:
                    what = f"the record holds {word_of(message)} twice"
                    yield Violation(rule="a reply is on record once", what=what)
                replies.add(known)
            if isinstance(message, Result) and not self._is_quiet(message, fewer):
                wanted = "none" if self.quiet is None else f"{self.quiet.estimate!r} of {self.quiet.replied}"
                what = f"the result is {message.estimate!r} of {message.replied} replies, in the quiet run {wanted}"
                yield Violation(rule="the estimate is that of the quiet run", what=what)

    def _is_quiet(self, result: Result, fewer: bool) -> bool:
        quiet = self.quiet
        if quiet is not None and fewer and result.replied < quiet.replied:
            return True
        return quiet is not None and encode(result) == encode(quiet)

    def _differs(self, word: Word, replies: Replies, announce: Announce) -> str:
        """How a reply differs from that of the witness; empty where it does not."""
        if word not in self._unfaithful:
            self._unfaithful[word] = ""
            if len(replies.users):
                mixed = word.speaker == SHUFFLER_NAME
                first, last = (0, len(self.inputs) - 1) if mixed else (int(replies.users[0]), int(replies.users[-1]))
                flip = partial(coins, self.key, replies.question)
                step = self.protocol.rounds[replies.round - 1]
                users, columns = step.draw(announce.broadcast, self.inputs[first : last + 1], first, flip)
                same = (mixed or np.array_equal(users, replies.users)) and set(columns) == set(replies.columns)
                agree = _all_among if mixed else np.array_equal
                if not same or any(not agree(replies.columns[name], columns[name]) for name in columns):
                    self._unfaithful[word] = f"{word.speaker}, round {replies.round}, users {first} to {last}"
        return self._unfaithful[word]

    def _loss(self, replies: Mapping[Word, Replies], asked: Mapping[bytes, Announce]) -> float:
        """The largest exact loss of a user by all that was said."""
        words = frozenset(replies)
        if words not in self._losses:
            ledger = Ledger(np.arange(len(self.inputs), dtype=np.int64), self.protocol.inputs)
            for word in sorted(words):
                each = replies[word]
                if each.question in asked and len(each.users):
                    step, public = self.protocol.rounds[each.round - 1], asked[each.question].broadcast
                    ledger.take(Answers.of(each, step, public))
            self._losses[words] = float(ledger.losses.max())
        return self._losses[words]


def _all_among(batch: Array, drawn: Array) -> bool:
    """Whether entries that were mixed, be it row by row or each for itself, are all among those that were drawn."""
    found, there = (Counter(each.ravel().tolist()) for each in (batch, drawn))
    return found <= there


def _twice(one: Word, other: Word) -> str:
    kind, number, _ = one.place
    if kind != "replies":
        return f"{one.speaker} said two different things as {kind} {number}"
    same = one.content[:DIGEST_BYTES] == other.content[:DIGEST_BYTES]
    what = "gave two different replies to one question" if same else "answered two questions"
    return f"{one.speaker} {what} in round {number}"
