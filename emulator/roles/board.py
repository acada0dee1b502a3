"""The board's part: admit, number, close. What it returns goes on record first and only then to anybody.

The board knows no protocol. It knows which node hosts which users, which chunks of a round it holds, and when to
close a round: when every node has answered, or at the deadline if the quorum has.
"""

from bisect import bisect, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.roles.seats import Seat, owed
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import (
    Abort,
    Announce,
    Close,
    Event,
    Message,
    Outcome,
    Ready,
    Refusal,
    Reminder,
    Replies,
    Result,
    Roster,
    Seating,
    Setup,
)

ANALYST_NAME = "analyst"
BOARD_NAME = "board"
LAUNCHER_NAME = "launcher"
LONGEST_PATIENCE = 4.0
SECONDS_A_NODE = 0.002
MOST_NAMED = 64
FLOWING = 8


class Board(Enum):
    """Where the board stands."""

    GATHERING = auto()
    SEATED = auto()
    OPEN = auto()
    CLOSED = auto()
    DONE = auto()
    ENDED = auto()


BOARD: Mapping[tuple[Board, type[Message]], Board] = {
    (Board.GATHERING, Roster): Board.SEATED,
    (Board.SEATED, Setup): Board.CLOSED,
    (Board.CLOSED, Announce): Board.OPEN,
    (Board.OPEN, Replies): Board.OPEN,
    (Board.OPEN, Close): Board.CLOSED,
    (Board.CLOSED, Result): Board.DONE,
    **{(state, Abort): Board.ENDED for state in Board if state not in (Board.DONE, Board.ENDED)},
    **{(state, aside): state for state in Board for aside in (Ready, Refusal, Reminder, Event)},
}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the board was told when it was started."""

    run: str
    users: int
    nodes: int
    deadline: float = 600.0
    quorum: float = 1.0
    join_deadline: float = 60.0
    patience: float = 0.25
    analyst_deadline: float = 600.0

    def __post_init__(self) -> None:
        if self.users < 1 or not 1 <= self.nodes <= self.users:
            raise BadInput(f"{self.nodes} nodes cannot host {self.users} users: give each node at least one user")
        if not 0 < self.quorum <= 1:
            raise BadInput(f"a quorum of {self.quorum} is not a share of the users: give a number in (0, 1]")
        if not min(self.deadline, self.join_deadline, self.patience, self.analyst_deadline) > 0:
            raise BadInput("deadlines and patience must be positive numbers of seconds")

    @property
    def first_wait(self) -> float:
        """Seconds before the first reminder: a reminder costs every node a look, so a crowd gets more time."""
        return max(self.patience, SECONDS_A_NODE * self.nodes)

    def next_wait(self, wait: float) -> float:
        """Slow is not lost: while nothing comes, each reminder waits twice as long as the one before."""
        return min(2 * wait, max(LONGEST_PATIENCE, self.first_wait))


def _slot(message: Message) -> tuple[type[Message], int]:
    """What may be said only once: each round's broadcast, and everything else a broadcaster says."""
    return type(message), message.round if isinstance(message, Announce) else 0


class BoardRole:
    """Hears (sender, message, now) and returns the messages to put on record, in order, with their senders."""

    def __init__(
        self, terms: Terms, draw_nonce: Callable[[], bytes] = bytes, keys: Mapping[str, bytes] | None = None
    ) -> None:
        """`draw_nonce` is called when the roster is closed; `keys`: with which key each user node must sign."""
        self.terms = terms
        self.nonce = b""
        self._draw_nonce = draw_nonce
        self._keys = keys
        self.state = Board.GATHERING
        self.seats: dict[str, Seat] = {}
        self._hosted: list[tuple[int, int, str]] = []
        self._unfinished: set[str] = set()
        self.round = 0
        self.replies = 0
        self.setup: Setup | None = None
        self._terms, self._question = b"", b""
        self.announce: Announce | None = None
        self.ending: Message | None = None
        self._said: dict[tuple[type[Message], int], bytes] = {}
        self._opened = 0.0
        self._reminded = 0.0
        self._asked = 0.0
        self._named = 0
        self._wait = terms.first_wait
        self._began: float | None = None
        self._moved = 0.0

    @property
    def over(self) -> bool:
        return self.state in (Board.DONE, Board.ENDED)

    def hear(self, sender: str, message: Message, now: float) -> list[tuple[str, Message]]:
        """What to record because of this message. Nothing: it was a repetition. RemoteProtocolError: drop it."""
        if self._began is None:
            self._began = now
        if isinstance(message, Ready):
            said = self._seat(sender, message)
        elif isinstance(message, Replies):
            said = self._take(sender, message)
        elif isinstance(message, Refusal):
            said = self._refuse(sender, message)
        elif isinstance(message, Setup | Announce | Result | Abort):
            said = self._broadcast(sender, message)
        elif isinstance(message, Event):
            said = [(sender, message)]
        else:
            raise RemoteProtocolError(f"board: a {message.kind} from {sender}, who may not send one")
        return self.settle(said, now)

    def settle(self, said: list[tuple[str, Message]], now: float) -> list[tuple[str, Message]]:
        """Let each recorded message move the board, and add what the board itself says next."""
        for _, message in said:
            self.record(message, now)
        following = self._next()
        return said + (self.settle([(BOARD_NAME, following)], now) if following else [])

    def record(self, message: Message, now: float) -> None:
        """Move as this recorded message demands; a restarted board hears its own record through here."""
        moved = BOARD.get((self.state, type(message)))
        if moved is None:
            raise RemoteProtocolError(f"board in {self.state.name}: a {message.kind} is not expected")
        if moved is not self.state:
            self.state, self._moved = moved, now
        if isinstance(message, Setup | Announce | Result | Abort):
            self._said[_slot(message)] = encode(message)
        if isinstance(message, Ready):
            self.seats[message.node] = Seat(
                node=message.node, first=message.first, users=message.users, pid=message.pid, key=message.key
            )
            insort(self._hosted, (message.first, message.first + message.users, message.node))
            self._unfinished.add(message.node)
        elif isinstance(message, Roster):
            self.nonce = message.nonce
        elif isinstance(message, Setup):
            self.setup, self._terms = message, terms_of(message)
        elif isinstance(message, Announce):
            self._open(message, now)
        elif isinstance(message, Replies):
            self.seats[message.node].hold(message)
            self._note_finished(message.node)
            self.replies += len(message.users)
            self._wait = min(self._wait, 4 * self.terms.first_wait)
            # While replies come, who is missing is slow rather than lost: a crowd is not to be woken for that.
            if now - self._asked < FLOWING * self.terms.first_wait:
                self._reminded = now
        elif isinstance(message, Refusal) and message.node in self.seats:
            seat = self.seats[message.node]
            # Round 0 is the setup: who refuses the terms takes no part in any round.
            seat.left, seat.refused = seat.left or message.round == 0, message.round == self.round
            self._note_finished(message.node)
        elif isinstance(message, Result | Abort):
            self.ending = message

    def tick(self, now: float) -> list[tuple[str, Message]]:
        """What the passing of time demands: a reminder, a close at the deadline, an end for want of users."""
        if self._began is None:
            self._began = now
        if self.state is Board.GATHERING and now - self._began > self.terms.join_deadline:
            return self.settle([(BOARD_NAME, self._late_roster())], now)
        if self.state is Board.OPEN and now - self._opened > self.terms.deadline:
            return self.settle([(BOARD_NAME, self._cut())], now)
        if self.state in (Board.SEATED, Board.CLOSED) and now - self._moved > self.terms.analyst_deadline:
            reason = f"the analyst said nothing for {self.terms.analyst_deadline:g} s"
            return self.settle([(BOARD_NAME, self.abort("failed", reason))], now)
        if self.state is Board.OPEN and now - self._reminded > self._wait:
            self._reminded, self._wait = now, self.terms.next_wait(self._wait)
            self._asked = now
            missing = self.missing()
            # Every node reads every reminder, so it names a few at a time; the next one names the others.
            some = sorted(missing)[self._named % len(missing) :][:MOST_NAMED]
            self._named += MOST_NAMED
            reminder = Reminder(run=self.terms.run, round=self.round, missing={name: missing[name] for name in some})
            return self.settle([(BOARD_NAME, reminder)], now)
        return []

    def abort(self, outcome: Outcome, reason: str) -> Abort:
        """The board's own end of the run, bound to the nonce if there is one."""
        return Abort(run=self.terms.run, outcome=outcome, reason=reason, nonce=self.nonce)

    def seating(self, node: str) -> Seating | None:
        """Which key holds a node's seat; None before the roster is closed, and for who has no seat."""
        seat = self.seats.get(node)
        if seat is None or not self.nonce:
            return None
        return Seating(run=self.terms.run, node=node, key=seat.key, nonce=self.nonce)

    def missing(self) -> dict[str, tuple[int, ...]]:
        """Who still owes which chunks; an empty tuple stands for all of them."""
        return owed(self.seats)

    def _seat(self, sender: str, ready: Ready) -> list[tuple[str, Message]]:
        if ready.node in (ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME):
            raise RemoteProtocolError(f"board: a user node that calls itself {ready.node}")
        if self._keys is not None and self._keys.get(ready.node) != ready.key:
            raise RemoteProtocolError(f"board: node {ready.node} does not sign with the key that is listed for it")
        known = self.seats.get(ready.node)
        if known and (known.first, known.users) != (ready.first, ready.users):
            raise RemoteProtocolError(f"board: node {ready.node} came back with other users")
        if known and known.key != ready.key:
            raise RemoteProtocolError(f"board: node {ready.node} came back, but not with the key that holds its seat")
        if known and known.pid == ready.pid:
            return []
        if known:
            detail = f"pid {known.pid} is now pid {ready.pid}"
            known.pid = ready.pid
            return [(BOARD_NAME, Event(event="restart", node=ready.node, round=self.round, detail=detail))]
        if self.state is not Board.GATHERING:
            # Who takes which number must be settled before the nonce is known.
            raise RemoteProtocolError(f"board: node {ready.node} comes after the roster was closed")
        if ready.run not in ("", self.terms.run):
            raise RemoteProtocolError(f"board: node {ready.node} waits for run {ready.run}, this is {self.terms.run}")
        if ready.first + ready.users > self.terms.users or ready.users < 1:
            raise RemoteProtocolError(f"board: node {ready.node} claims users beyond {self.terms.users}")
        place = bisect(self._hosted, (ready.first, ready.first + ready.users, ready.node))
        # Those who sit do not overlap, so only the neighbours can.
        for first, end, name in self._hosted[max(0, place - 1) : place + 1]:
            if ready.first < end and first < ready.first + ready.users:
                raise RemoteProtocolError(f"board: node {ready.node} claims users of node {name}")
        return [(sender, ready)]

    def lacks(self, node: str) -> bool:
        """Whether a node that says it is there may not have heard what this moment is about."""
        return self.state is Board.OPEN and node in self._unfinished

    def _note_finished(self, node: str) -> None:
        """Keep who is waited for: looking at every seat at every reply would take a crowd's time squared."""
        if self.seats[node].finished:
            self._unfinished.discard(node)

    def _take(self, sender: str, replies: Replies) -> list[tuple[str, Message]]:
        seat = self.seats.get(replies.node)
        if replies.run != self.terms.run or seat is None:
            raise RemoteProtocolError(f"board: replies of run {replies.run}, node {replies.node}, which has no seat")
        if self.state is not Board.OPEN or replies.round != self.round:
            return []
        if replies.question != self._question:
            raise RemoteProtocolError(
                f"board: node {replies.node} answers another question than that of round {self.round}"
            )
        return [(sender, replies)] if seat.is_new(replies) else []

    def _refuse(self, sender: str, refusal: Refusal) -> list[tuple[str, Message]]:
        seat = self.seats.get(refusal.node)
        if seat is None or refusal.run != self.terms.run:
            raise RemoteProtocolError(f"board: a refusal from {refusal.node}, which has no seat in run {refusal.run}")
        if seat.left or seat.refused or refusal.round not in (0, self.round):
            return []
        return [(sender, refusal)]

    def _broadcast(self, sender: str, message: Setup | Announce | Result | Abort) -> list[tuple[str, Message]]:
        if sender != ANALYST_NAME and not (isinstance(message, Abort) and sender == BOARD_NAME):
            raise RemoteProtocolError(f"board: a {message.kind} from {sender}, who is not the analyst")
        if message.run != self.terms.run:
            raise RemoteProtocolError(f"board: a {message.kind} of run {message.run} in run {self.terms.run}")
        if isinstance(message, Abort) and message.nonce != self.nonce:
            raise RemoteProtocolError(f"board: an abort bound to another nonce than that of run {message.run}")
        said = self._said.get(_slot(message))
        if said == encode(message):
            return []
        if said is not None:
            raise RemoteProtocolError(f"board: a second, different {message.kind}")
        if isinstance(message, Announce) and message.round != self.round + 1:
            raise RemoteProtocolError(f"board: round {message.round} announced after round {self.round}")
        return [(sender, message)]

    def _open(self, announce: Announce, now: float) -> None:
        self.announce, self.round, self.replies = announce, announce.round, 0
        # Format 1 knows no questions.
        known = self.setup is not None and self.setup.nonce
        self._question = question_of(self._terms, announce) if known else b""
        self._opened = self._reminded = self._asked = now
        self._wait = self.terms.first_wait
        for seat in self.seats.values():
            seat.open()
        self._unfinished = {name for name, seat in self.seats.items() if not seat.finished}

    def _next(self) -> Message | None:
        if self.state is Board.GATHERING and len(self.seats) == self.terms.nodes:
            users = sum(seat.users for seat in self.seats.values())
            if users < self.terms.users:
                return self.abort("failed", f"nodes host {users} of {self.terms.users} users")
            return self._roster(users)
        if self.state is Board.OPEN and self.seats and not self._unfinished:
            return self._cut()
        return None

    def _late_roster(self) -> Message:
        users = sum(seat.users for seat in self.seats.values())
        if users < self.terms.quorum * self.terms.users or not users:
            reason = f"{users} of {self.terms.users} users joined in {self.terms.join_deadline:g} s, below the quorum"
            return self.abort("failed", reason)
        return self._roster(users)

    def _roster(self, users: int) -> Roster:
        return Roster(run=self.terms.run, nodes=len(self.seats), users=users, nonce=self._draw_nonce())

    def _cut(self) -> Message:
        """Close the round if enough of those who were asked have answered; users who never came count as asked."""
        assert self.announce is not None
        speakers, seated = self.announce.speakers, sum(seat.users for seat in self.seats.values())
        if self.replies * seated < self.terms.quorum * speakers * self.terms.users or not self.replies:
            reason = f"round {self.round}: {self.replies} of {speakers} users answered, below the quorum"
            return self.abort("failed", reason)
        return Close(
            run=self.terms.run,
            round=self.round,
            replies=self.replies,
            missing=max(0, speakers - self.replies),
            absent=tuple(sorted(name for name, seat in self.seats.items() if not seat.whole)),
        )
