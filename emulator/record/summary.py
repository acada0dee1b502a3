"""One reading of a record: what everybody counts who follows, reports or audits a run.

A `Summary` hears records in order. It counts and judges nothing, so it also reads records that no honest board wrote.
Nobody's word is taken for how many rounds there were: a round is observed when a reply follows its broadcast.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Builder, Interaction, Protocol
from parley.emulator.randomizer import Shape
from parley.emulator.record.records import Record
from parley.emulator.record.user_sets import UserSet
from parley.emulator.round import BLOCK_USERS, Round
from parley.emulator.wire import messages as wire

# The columns of a frame by name, each with its type and the shape of one entry.
Form = frozenset[tuple[str, tuple[np.dtype[Any], tuple[int, ...]]]]
# One is all that honest nodes use.
MOST_FORMS = 4
# The most that an analyst lets in; nobody counts one by one up to a larger number that somebody merely wrote.
MOST_COUNTED = 2**30


def form_of(types: Shape) -> Form:
    return frozenset(types.items())


@dataclass
class Turnout:
    """What one node answered in one round: for how many users, and in which of its chunks."""

    chunks: int
    replies: int = 0
    held: set[int] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        return len(self.held) >= self.chunks


@dataclass
class RoundSummary:
    """One round, from its announcement on.

    `columns` are those of its first frame; `forms` are the rounds that frames name, with the types of their columns.
    `arrivals`: when each frame came, and how many replies there were then.
    """

    announce: wire.Announce
    opened: float
    bytes_down: int
    bytes_up: int = 0
    columns: frozenset[str] | None = None
    forms: set[tuple[int, Form]] = field(default_factory=set)
    users: UserSet = field(default_factory=UserSet)
    nodes: dict[str, Turnout] = field(default_factory=dict)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    close: wire.Close | None = None
    closed: float | None = None

    @property
    def number(self) -> int:
        return self.announce.round

    @property
    def replies(self) -> int:
        return self.arrivals[-1][1] if self.arrivals else 0

    @property
    def missing(self) -> int:
        """How many replies the board missed when it closed the round."""
        return 0 if self.close is None else self.close.missing

    @property
    def seconds(self) -> float | None:
        """How long it was open; None while it is."""
        return None if self.closed is None else self.closed - self.opened

    def take(self, replies: wire.Replies, size: int, time: float) -> None:
        self.bytes_up += size
        self.columns = self.columns or frozenset(replies.columns)
        if len(self.forms) < MOST_FORMS:
            types = {name: (column.dtype, column.shape[1:]) for name, column in replies.columns.items()}
            self.forms.add((replies.round, form_of(types)))
        self.users.add(replies.users)
        self.arrivals.append((time, self.replies + len(replies.users)))
        turnout = self.nodes.setdefault(replies.node, Turnout(replies.chunks))
        turnout.replies += len(replies.users)
        turnout.held.add(replies.chunk)


class Summary:
    """What a record says about its run, as far as it has been heard.

    `seated` is whom the nodes answer for. `bytes_up` is the size of all frames of replies; `bytes_down` is the size of
    all broadcasts, each once, because every user hears each of them. Neither counts repetitions, which are transport.
    `silent` is how many of a node's users say nothing in a round because their wallets refuse.
    """

    def __init__(self, build: Builder | None = None) -> None:
        """Without `build` nothing is known that depends on the protocol."""
        self.setup: wire.Setup | None = None
        self.protocol: Protocol | None = None
        self.unbuilt = "the record holds no setup"
        """Why there is no protocol; empty where there is one."""
        self.roster: wire.Roster | None = None
        self.seated = UserSet()
        self.highest = -1
        """The highest user that a reply speaks for."""
        self.seats: list[wire.Ready] = []
        self.sent: Counter[str] = Counter()
        """How many replies each node sent, whatever they answer."""
        self.rounds: list[RoundSummary] = []
        self.ending: wire.Result | wire.Abort | None = None
        self.kinds: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.silent: dict[tuple[int, str], int] = {}
        self.bytes_up = self.bytes_down = 0
        self.began = self.ended = 0.0
        self.next = 0
        """The number of the record to be heard next."""
        self._build = build
        self._stranger = ""
        self._asked: dict[int, int] = {}
        self._replied: tuple[int, int | None] | None = None

    def take(self, record: Record) -> None:
        """Hear one record; TranscriptError if it holds no message."""
        self.hear(record.message, len(record.frame), record.time)
        self.next = record.sequence + 1

    def hear(self, message: wire.Message, size: int, time: float) -> None:
        """Count one message of the record, given the size of its frame and when it was recorded."""
        if not self.kinds:
            self.began = time
        self.ended = time
        self.kinds[message.kind] += 1
        if isinstance(message, wire.BROADCASTS) and not isinstance(message, wire.Reminder):
            self.bytes_down += size
        if isinstance(message, wire.Ready):
            self.seats.append(message)
            self.seated.add_range(message.first, message.first + message.users)
            self._asked.clear()
        elif isinstance(message, wire.Roster):
            self.roster = message
        elif isinstance(message, wire.Setup):
            if self.setup is None:
                self._begin(message)
        elif isinstance(message, wire.Announce):
            self.rounds.append(RoundSummary(announce=message, opened=time, bytes_down=size))
        elif isinstance(message, wire.Replies):
            self._answer(message, size, time)
        elif isinstance(message, wire.Close):
            if self.rounds:
                self.rounds[-1].close, self.rounds[-1].closed = message, time
        elif isinstance(message, wire.Event):
            self.faults[message.event] += 1
            if silent := wire.silent_users(message):
                self.silent[message.round, message.node] = silent
        elif isinstance(message, wire.Result | wire.Abort):
            self.ending = message

    def _begin(self, setup: wire.Setup) -> None:
        self.setup, self.unbuilt = setup, ""
        if self._build is None:
            return
        try:
            # Factors that are computed here must come out as they did for the parties of the run.
            with one_thread():
                self.protocol = self._build(setup.protocol, setup.parameters)
        except ParleyError as error:
            self.unbuilt = f"the protocol of the setup cannot be built: {error}"

    def _answer(self, replies: wire.Replies, size: int, time: float) -> None:
        self.bytes_up += size
        self.sent[replies.node] += len(replies.users)
        if len(replies.users):
            self.highest = max(self.highest, int(replies.users[-1]))
            known = self.seated.holds_range(int(replies.users[0]), int(replies.users[-1]) + 1)
            strangers = replies.users[:0] if known else replies.users[~self.seated.holds(replies.users)]
            if len(strangers) and not self._stranger:
                self._stranger = f"{replies.node} answers for user {strangers[-1]}, who was never seated"
        if self.rounds:
            self.rounds[-1].take(replies, size, time)

    @property
    def users(self) -> int:
        return 0 if self.roster is None else self.roster.users

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def observed(self) -> int:
        """How many rounds took place: broadcasts that a reply followed."""
        return sum(each.replies > 0 for each in self.rounds)

    @property
    def interaction(self) -> Interaction:
        """The smallest class that holds what was seen."""
        if self.observed <= 1:
            return "non-interactive"
        return "fully interactive" if self.again else "sequentially interactive"

    @property
    def again(self) -> int:
        """How many replies came from users who had spoken in an earlier round."""
        again, before = 0, UserSet()
        for each in self.rounds:
            again += each.users.shared_with(before)
            before.join(each.users)
        return again

    @property
    def uncounted(self) -> str:
        """Why users cannot be counted one by one; empty where they can."""
        if len(self.seated) > MOST_COUNTED:
            return f"nodes claim {len(self.seated):,} users, more than are counted one by one"
        return self._stranger

    @property
    def replied(self) -> int | None:
        """Users who answered every round they were asked in; None where that cannot be known.

        They are counted one by one, and again only if something was heard since.
        """
        heard = self.kinds.total()
        if self._replied is None or self._replied[0] != heard:
            self._replied = heard, self._count_replied()
        return self._replied[1]

    def _count_replied(self) -> int | None:
        if self.protocol is None or self.uncounted:
            return None
        if not self.again and len({each.number for each in self.rounds}) == len(self.rounds):
            return self._replied_once()
        count = 0
        for users in self.seated.blocks(BLOCK_USERS):
            asked, answered = np.zeros(len(users), np.int64), np.zeros(len(users), np.int64)
            for each in self.rounds:
                step = self.step(each.number)
                asked += 0 if step is None else step.participates(users)
                answered += each.users.holds(users)
            count += int(np.count_nonzero((asked > 0) & (answered == asked)))
        return count

    def _replied_once(self) -> int | None:
        """The same where nobody spoke twice: who is asked once and answered then, among those who answered."""
        assert self.protocol is not None
        groups, numbers = range(self.protocol.groups), [each.number for each in self.rounds]
        asked = np.array([sum(self.protocol.participates(number, each) for number in numbers) for each in groups])
        turns = [
            np.array([self.protocol.participates(number, each) for each in groups]) & (asked == 1) for number in numbers
        ]
        count = 0
        for first, end in self.seated.runs.tolist():
            for start in range(first, end, BLOCK_USERS):
                stop = min(start + BLOCK_USERS, end)
                answered = [each.users.marks(start, stop) for each in self.rounds]
                if any(each.any() for each in answered):
                    group = self.protocol.group_of(np.arange(start, stop))
                    each_round = zip(turns, answered, strict=True)
                    count += sum(int(np.count_nonzero(turn[group] & spoke)) for turn, spoke in each_round)
        return count

    def asked(self, number: int) -> int | None:
        """How many users were to answer in a round; None where that cannot be known."""
        step = self.step(number)
        if step is None or len(self.seated) > MOST_COUNTED:
            return None
        if number not in self._asked:
            seats = [(seat.first, seat.first + seat.users) for seat in self.seats]
            if sum(end - first for first, end in seats) == len(self.seated):
                self._asked[number] = sum(step.speakers(first, end) for first, end in seats)
            else:
                blocks = self.seated.blocks(BLOCK_USERS)
                self._asked[number] = sum(int(np.count_nonzero(step.participates(users))) for users in blocks)
        return self._asked[number]

    def step(self, number: int) -> Round | None:
        """The protocol's round with this number; None where there is none."""
        if self.protocol is None or not 1 <= number <= len(self.protocol.rounds):
            return None
        return self.protocol.rounds[number - 1]


def summarize(records: Iterable[Record]) -> Summary:
    summary = Summary()
    for record in records:
        summary.take(record)
    return summary
