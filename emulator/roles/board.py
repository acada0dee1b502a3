"""The board's part: admit, number, close. What it returns goes on record first and only then to anybody.

The board knows no protocol. It knows which node hosts which users, which chunks of a round it holds, and when to
close a round: when every node has answered, or at the deadline if the quorum has.
"""

from bisect import bisect, insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.roles.seats import Chunk, Seat, owed
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode
from parley.emulator.wire.shapes import Shape
from parley.emulator.wire.signatures import Keys

ANALYST_NAME = "analyst"
BOARD_NAME = "board"
LAUNCHER_NAME = "launcher"
LONGEST_PATIENCE = 4.0
SECONDS_A_NODE = 0.002
MOST_NAMED = 64
FLOWING = 8
Said = list[tuple[str, wire.Message]]
"""Messages to put on record, in order, with their senders."""

ASIDES = (wire.Ready, wire.Shard, wire.Refusal, wire.Reminder, wire.Event)
Board = Enum("Board", "GATHERING SEATED OPEN CLOSED DONE ENDED")
BOARD: Mapping[tuple[Board, type[wire.Message]], Board] = {
    (Board.GATHERING, wire.Roster): Board.SEATED,
    (Board.SEATED, wire.Setup): Board.CLOSED,
    (Board.CLOSED, wire.Announce): Board.OPEN,
    (Board.OPEN, wire.Replies): Board.OPEN,
    # In a run of several boards: what a shard answers, and how it is told that its answer is on record.
    (Board.OPEN, wire.Tally): Board.OPEN,
    (Board.CLOSED, wire.Tie): Board.CLOSED,
    (Board.OPEN, wire.Close): Board.CLOSED,
    (Board.CLOSED, wire.Result): Board.DONE,
    **{(state, wire.Abort): Board.ENDED for state in Board if state not in (Board.DONE, Board.ENDED)},
    **{(state, aside): state for state in Board for aside in ASIDES},
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


class BoardRole:
    """Hears (sender, message, now) and returns what to put on record."""

    def __init__(self, terms: Terms, draw_nonce: Callable[[], bytes] = bytes, keys: Keys | None = None) -> None:
        """`draw_nonce` is called when the roster is closed; `keys`: with which key each user node must sign."""
        self.terms, self._draw_nonce, self._keys = terms, draw_nonce, keys
        self.nonce = b""
        self.state = Board.GATHERING
        self.seats: dict[str, Seat] = {}
        self._hosted: list[tuple[int, int, str]] = []
        self._unfinished: set[str] = set()
        self.round = self.replies = 0
        self.setup: wire.Setup | None = None
        self._terms, self._question = b"", b""
        self.announce: wire.Announce | None = None
        self.ending: wire.Message | None = None
        # What may be said only once: each round's broadcast, and everything else a broadcaster says.
        self._said: dict[tuple[type[wire.Message], int], bytes] = {}
        self._opened = self._reminded = self._asked = self._moved = 0.0
        self._named = 0
        self._wait = terms.first_wait
        self._began: float | None = None

    @property
    def over(self) -> bool:
        return self.state in (Board.DONE, Board.ENDED)

    @property
    def seated(self) -> int:
        """How many users have a seat."""
        return sum(seat.users for seat in self.seats.values())

    @property
    def lacking(self) -> int:
        """How many users were asked in this round and have not answered."""
        return 0 if self.announce is None else max(0, self.announce.speakers - self.replies)

    @property
    def absent(self) -> tuple[str, ...]:
        """Who has not answered this round in full."""
        return tuple(sorted(name for name, seat in self.seats.items() if not seat.whole))

    def shows(self, message: wire.Message) -> int | None:
        """After which message every node is shown something: 0 for its seat, or the round of its receipt."""
        if isinstance(message, wire.Close):
            return message.round
        return 0 if isinstance(message, wire.Roster) else None

    def hear(self, sender: str, message: wire.Message, now: float) -> Said:
        """What to record because of this message. Nothing: it was a repetition. RemoteProtocolError: drop it."""
        if self._began is None:
            self._began = now
        if isinstance(message, wire.Ready):
            said = self._seat(sender, message)
        elif isinstance(message, wire.Replies):
            said = self._take(sender, message)
        elif isinstance(message, wire.Refusal):
            seat = self.seats.get(message.node)
            if seat is None or message.run != self.terms.run:
                where = f"a refusal from {message.node}, which has no seat in run {message.run}"
                raise RemoteProtocolError(f"board: {where}")
            repeated = seat.left or seat.refused or message.round not in (0, self.round)
            said = [] if repeated else [(sender, message)]
        elif isinstance(message, wire.Setup | wire.Announce | wire.Result | wire.Abort):
            said = self._broadcast(sender, message)
        elif isinstance(message, wire.Event):
            said = [(sender, message)]
        else:
            raise RemoteProtocolError(f"board: a {message.kind} from {sender}, who may not send one")
        return self.settle(said, now)

    def settle(self, said: Said, now: float) -> Said:
        """Let each recorded message move the board, and add what the board itself says next."""
        for _, message in said:
            self.record(message, now)
        if self.state is Board.GATHERING and len(self.seats) == self.terms.nodes:
            return said + self.settle([(BOARD_NAME, self._roster(late=False))], now)
        if self.state is Board.OPEN and self.seats and not self._unfinished:
            return said + self.settle([(BOARD_NAME, self._cut())], now)
        return said

    def record(self, message: wire.Message, now: float) -> None:
        """Move as this recorded message demands; a restarted board hears its own record through here."""
        moved = BOARD.get((self.state, type(message)))
        if moved is None:
            raise RemoteProtocolError(f"board in {self.state.name}: a {message.kind} is not expected")
        if moved is not self.state:
            self.state, self._moved = moved, now
        if isinstance(message, wire.Setup | wire.Announce | wire.Result | wire.Abort):
            self._said[type(message), getattr(message, "round", 0)] = encode(message)
        if isinstance(message, wire.Ready):
            self.seats[message.node] = Seat(message.first, message.users, message.key, message.node, message.pid)
            insort(self._hosted, (message.first, message.first + message.users, message.node))
            self._unfinished.add(message.node)
        elif isinstance(message, wire.Roster):
            self.nonce = message.nonce
        elif isinstance(message, wire.Setup):
            self.setup, self._terms = message, terms_of(message)
        elif isinstance(message, wire.Announce):
            self.announce, self.round, self.replies = message, message.round, 0
            # Format 1 knows no questions.
            known = self.setup is not None and self.setup.nonce
            self._question = question_of(self._terms, message) if known else b""
            self._opened = self._reminded = self._asked = now
            self._wait = self.terms.first_wait
            for seat in self.seats.values():
                seat.open()
            self._unfinished = {name for name, seat in self.seats.items() if not seat.finished}
        elif isinstance(message, wire.Replies):
            self._hold(self.seats[message.node], Chunk.read(message))
            self._flow(now)
        elif isinstance(message, wire.Refusal) and message.node in self.seats:
            seat = self.seats[message.node]
            # Round 0 is the setup: who refuses the terms takes no part in any round.
            seat.left, seat.refused = seat.left or message.round == 0, message.round == self.round
        elif isinstance(message, wire.Result | wire.Abort):
            self.ending = message
        # Who is waited for is kept: looking at every seat at every reply would take a crowd's time squared.
        speaker = message.node if isinstance(message, wire.Refusal) else ""
        if speaker in self.seats and self.seats[speaker].finished:
            self._unfinished.discard(speaker)

    def _hold(self, seat: Seat, chunk: Chunk) -> None:
        seat.take(chunk)
        self.replies += chunk.users
        if not seat.owes:
            self._unfinished.discard(chunk.node)

    def _flow(self, now: float) -> None:
        """While replies come, who is missing is slow rather than lost: a crowd is not to be woken for that."""
        self._wait = min(self._wait, 4 * self.terms.first_wait)
        if now - self._asked < FLOWING * self.terms.first_wait:
            self._reminded = now

    @property
    def is_complete(self) -> bool:
        """Whether nobody owes an answer to the open question any more."""
        return not self._unfinished

    def asks_for(self, shape: Shape) -> bool:
        """Whether frames of this shape answer the question that is open."""
        asked = self.terms.run, self.round, self._question
        return self.state is Board.OPEN and (shape.run, shape.round, shape.question) == asked

    def hear_all(self, chunks: Iterable[Chunk], now: float) -> list[bool | str]:
        """Judge replies to the open question of nodes that have seats, each as `hear` would, and hold what is new.

        For each: whether it is to be recorded, or why it is dropped. The list ends early where the round is complete:
        what comes after that is for `hear`. `settle` says what follows.
        """
        judged: list[bool | str] = []
        seats, unfinished = self.seats, self._unfinished
        for chunk in chunks:
            if not unfinished:
                break
            seat = seats[chunk.node]
            try:
                new = seat.is_new(chunk)
            except RemoteProtocolError as error:
                judged.append(str(error))
                continue
            judged.append(new)
            if new:
                self._hold(seat, chunk)
        if True in judged:
            self._flow(now)
        return judged

    def tick(self, now: float) -> Said:
        """What the passing of time demands: a reminder, a close at the deadline, an end for want of users."""
        if self._began is None:
            self._began = now
        said: wire.Message | None = None
        if self.state is Board.GATHERING and now - self._began > self.terms.join_deadline:
            said = self._roster(late=True)
        elif self.state is Board.OPEN and now - self._opened > self.terms.deadline:
            said = self._cut()
        elif self.state in (Board.SEATED, Board.CLOSED) and now - self._moved > self.terms.analyst_deadline:
            said = self.abort("failed", f"the analyst said nothing for {self.terms.analyst_deadline:g} s")
        elif self.state is Board.OPEN and now - self._reminded > self._wait:
            self._reminded, self._wait = now, self.terms.next_wait(self._wait)
            self._asked = now
            missing = owed(self.seats)
            # Every node reads every reminder, so it names a few at a time; the next one names the others.
            some = sorted(missing)[self._named % len(missing) :][:MOST_NAMED]
            self._named += MOST_NAMED
            said = wire.Reminder(run=self.terms.run, round=self.round, missing={name: missing[name] for name in some})
        return [] if said is None else self.settle([(BOARD_NAME, said)], now)

    def abort(self, outcome: wire.Outcome, reason: str) -> wire.Abort:
        """The board's own end of the run, bound to the nonce if there is one."""
        return wire.Abort(run=self.terms.run, outcome=outcome, reason=reason, nonce=self.nonce)

    def seating(self, node: str) -> wire.Seating | None:
        """Which key holds a node's seat; None before the roster is closed, and for who has no seat."""
        seat = self.seats.get(node)
        if seat is None or not self.nonce:
            return None
        return wire.Seating(run=self.terms.run, node=node, key=seat.key, nonce=self.nonce)

    def _seat(self, sender: str, ready: wire.Ready) -> Said:
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
            return [(BOARD_NAME, wire.Event(event="restart", node=ready.node, round=self.round, detail=detail))]
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

    def _take(self, sender: str, replies: wire.Replies) -> Said:
        seat = self.seats.get(replies.node)
        if replies.run != self.terms.run or seat is None:
            raise RemoteProtocolError(f"board: replies of run {replies.run}, node {replies.node}, which has no seat")
        if self.state is not Board.OPEN or replies.round != self.round:
            return []
        if replies.question != self._question:
            other = f"board: node {replies.node} answers another question"
            raise RemoteProtocolError(f"{other} than that of round {self.round}")
        return [(sender, replies)] if seat.is_new(Chunk.read(replies)) else []

    def _broadcast(self, sender: str, message: wire.Setup | wire.Announce | wire.Result | wire.Abort) -> Said:
        if sender != ANALYST_NAME and not (isinstance(message, wire.Abort) and sender == BOARD_NAME):
            raise RemoteProtocolError(f"board: a {message.kind} from {sender}, who is not the analyst")
        if message.run != self.terms.run:
            raise RemoteProtocolError(f"board: a {message.kind} of run {message.run} in run {self.terms.run}")
        if isinstance(message, wire.Abort) and message.nonce != self.nonce:
            raise RemoteProtocolError(f"board: an abort bound to another nonce than that of run {message.run}")
        said = self._said.get((type(message), getattr(message, "round", 0)))
        if said == encode(message):
            return []
        if said is not None:
            raise RemoteProtocolError(f"board: a second, different {message.kind}")
        if isinstance(message, wire.Announce) and message.round != self.round + 1:
            raise RemoteProtocolError(f"board: round {message.round} announced after round {self.round}")
        return [(sender, message)]

    def _roster(self, *, late: bool) -> wire.Roster | wire.Abort:
        """Close the roster: with all users, or at the deadline with those of a quorum."""
        users = self.seated
        if not late and users < self.terms.users:
            return self.abort("failed", f"nodes host {users} of {self.terms.users} users")
        if users < self.terms.quorum * self.terms.users or not users:
            reason = f"{users} of {self.terms.users} users joined in {self.terms.join_deadline:g} s, below the quorum"
            return self.abort("failed", reason)
        return wire.Roster(run=self.terms.run, nodes=len(self.seats), users=users, nonce=self._draw_nonce())

    def _cut(self) -> wire.Message:
        """Close the round if enough of those who were asked have answered; users who never came count as asked."""
        assert self.announce is not None
        speakers = self.announce.speakers
        if self.replies * self.seated < self.terms.quorum * speakers * self.terms.users or not self.replies:
            answered = f"{self.replies} of {speakers} users answered, below the quorum"
            drawn = f"none of the {self.seated} users was drawn to answer; more users are needed"
            reason = f"round {self.round}: {answered if speakers else drawn}"
            return self.abort("failed", reason)
        return wire.Close(
            run=self.terms.run,
            round=self.round,
            replies=self.replies,
            missing=self.lacking,
            absent=self.absent,
        )
