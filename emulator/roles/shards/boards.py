"""The two boards of a run with several: that of a shard, and the head board, whose seats are shards.

Theory of operation. A shard's board seats its own users and closes its own rounds. It decides nothing for the run: it
draws no nonce and knows no quorum. Its sub-analyst takes a seat at the head board with all users that came:

    shard's board                           head board
    Ready ..., Roster without a nonce  ->   Shard
                                            Roster, which draws the nonce of the run
    Setup, Announce, verbatim          <-   Setup, Announce
    Replies ..., Close                 ->   Tally, which holds the frame of that close
                                            Close, over a tree with the heads of all shards
    Tie                                <-   Receipt

The nonce of the run is drawn after every shard's roster was closed, so that who has which number is settled before
anybody knows it. The quorum is that of the whole run: a shard's round is closed with whatever came.
"""

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, Board, BoardRole, Said, Terms
from parley.emulator.roles.seats import Seat
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.shapes import Shape
from parley.emulator.wire.signatures import Keys

SHARD_PREFIX = "shard-"


def board_of(shard: str) -> str:
    """What others call the board of a shard. On its own record it is the board."""
    return f"{BOARD_NAME}-{shard.removeprefix(SHARD_PREFIX)}"


class ShardBoardRole(BoardRole):
    """The board of a shard. Its analyst is the sub-analyst, called `shard`; empty where the record alone is known."""

    def __init__(self, terms: Terms, shard: str = "", keys: Keys | None = None) -> None:
        super().__init__(terms, keys=keys)
        self.shard = shard

    def hear(self, sender: str, message: wire.Message, now: float) -> Said:
        if not isinstance(message, wire.Tie):
            return super().hear(sender, message, now)
        if self.shard not in ("", sender) or message.node != sender or message.run != self.terms.run:
            raise RemoteProtocolError(f"board: a tie from {sender}, who is not the sub-analyst of this shard")
        if self.state is not Board.CLOSED or message.round != self.round or self._is_tied:
            return []
        return self.settle([(sender, message)], now)

    def record(self, message: wire.Message, now: float) -> None:
        super().record(message, now)
        if isinstance(message, wire.Setup | wire.Abort):
            # The head board drew it; until now nobody here knew it.
            self.nonce = self.nonce or message.nonce
        if isinstance(message, wire.Tie):
            self._said[wire.Tie, message.round] = b""

    @property
    def _is_tied(self) -> bool:
        return (wire.Tie, self.round) in self._said

    @property
    def lacking(self) -> int:
        """Nobody here knows how many of the shard's users are asked; the close of the head board says who lacks."""
        return 0

    def shows(self, message: wire.Message) -> int | None:
        if isinstance(message, wire.Tie):
            return message.round
        return 0 if isinstance(message, wire.Setup) else None

    def _broadcast(self, sender: str, message: wire.Setup | wire.Announce | wire.Result | wire.Abort) -> Said:
        if isinstance(message, wire.Abort) and sender == ANALYST_NAME and not self.nonce:
            # The whole run may end before this shard has heard its setup.
            self.nonce = message.nonce
        return super()._broadcast(sender, message)

    def _roster(self, *, late: bool) -> wire.Roster | wire.Abort:
        if not self.seats:
            return self.abort("failed", f"nobody joined in {self.terms.join_deadline:g} s")
        return wire.Roster(run=self.terms.run, nodes=len(self.seats), users=self.seated)

    def _cut(self) -> wire.Message:
        return wire.Close(run=self.terms.run, round=self.round, replies=self.replies, missing=0, absent=self.absent)


class HeadBoardRole(BoardRole):
    """The board whose seats are shards, and whose replies are tallies."""

    def hear(self, sender: str, message: wire.Message, now: float) -> Said:
        if isinstance(message, wire.Ready | wire.Replies):
            raise RemoteProtocolError(f"board: a {message.kind} from {sender}; only shards have a seat here")
        if not isinstance(message, wire.Shard | wire.Tally):
            return super().hear(sender, message, now)
        if self._began is None:
            self._began = now
        return self.settle(self._join(sender, message) if isinstance(message, wire.Shard) else self._add(message), now)

    def record(self, message: wire.Message, now: float) -> None:
        super().record(message, now)
        if isinstance(message, wire.Shard):
            seat = Seat(message.first, message.end - message.first, message.key, message.node, message.pid)
            seat.present = message.users
            self.seats[message.node] = seat
            self._hosted.append((message.first, message.end, message.node))
            self._hosted.sort()
            self._unfinished.add(message.node)
        elif isinstance(message, wire.Tally):
            seat = self.seats[message.node]
            seat.owes, seat.held = set(), {0: _checksum(message)}
            self.replies += closed(message).replies
            self._unfinished.discard(message.node)

    def asks_for(self, shape: Shape) -> bool:
        """Replies of users have no place here; one by one they are refused."""
        return False

    @property
    def seated(self) -> int:
        return sum(seat.present for seat in self.seats.values())

    def _roster(self, *, late: bool) -> wire.Roster | wire.Abort:
        # All shards may be there without all of their users.
        return super()._roster(late=True)

    def _join(self, sender: str, shard: wire.Shard) -> Said:
        """A shard takes its seat as a user node does, for the range from its first user to its last."""
        ready = wire.Ready(
            node=shard.node,
            first=shard.first,
            users=shard.end - shard.first,
            pid=shard.pid,
            run=shard.run,
            key=shard.key,
        )
        return [(name, shard if said is ready else said) for name, said in self._seat(sender, ready)]

    def _add(self, tally: wire.Tally) -> Said:
        seat = self.seats.get(tally.node)
        if tally.run != self.terms.run or seat is None:
            raise RemoteProtocolError(f"board: a tally of run {tally.run}, shard {tally.node}, which has no seat")
        if self.state is not Board.OPEN or tally.round != self.round:
            return []
        if tally.question != self._question:
            raise RemoteProtocolError(f"board: {tally.node} answers another question than that of round {self.round}")
        replies = closed(tally).replies
        if replies > seat.present:
            raise RemoteProtocolError(f"board: {tally.node} counts more replies than it has users")
        if tally.replies + sum(tally.rejected.values()) != replies:
            raise RemoteProtocolError(f"board: {tally.node} counts other replies than its board has closed with")
        if seat.held:
            if seat.held[0] != _checksum(tally):
                raise RemoteProtocolError(f"board: {tally.node} answers twice, with other sums")
            return []
        return [(tally.node, tally)]


def _checksum(tally: wire.Tally) -> int:
    """Tells a repetition from another answer: the checksum that its frame ends with."""
    return int.from_bytes(encode(tally)[-4:], "little")


def closed(tally: wire.Tally) -> wire.Close:
    """The close of the shard's board that a tally holds."""
    close = decode(tally.close)
    if not isinstance(close, wire.Close) or (close.run, close.round) != (tally.run, tally.round):
        raise RemoteProtocolError(f"a tally of {tally.node} without the close of round {tally.round}")
    return close
