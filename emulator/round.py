"""A round as everybody needs it, derived from the method that says what users send.

`respond` and `log_likelihood` belong together: the first draws a reply, the second says exactly how likely it was under
each of the k inputs, which is what makes exact audits possible. `tally` is the analyst's half: tallies are integers,
so they add up to the same number in whatever order replies arrive and however they were cut into frames.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.randomizer import MOST_OUTCOMES, Array, Coins, Columns, Flip, Floats, Integers, Shape
from parley.emulator.wire.messages import Users

if TYPE_CHECKING:
    from parley.emulator.protocol import Broadcast, Inputs, Method, Protocol, Question, Send, Sends

# Numbers of a block of users' vectors: 4 MiB.
BLOCK_NUMBERS = 1 << 19
# Users whose coins are drawn at once, and bytes of their coins: what is computed of them stays in the cache.
DRAWN_USERS = 1 << 14
BLOCK_COINS = 1 << 23
# Users that are asked at once whether they answer.
BLOCK_USERS = 1 << 16
# Ranges of users whose speakers are remembered.
MOST_COUNTS = 64
# Beyond this a product of two numbers of a broadcast may not be a number.
LARGEST_VALUE = 1e100


@dataclass(frozen=True)
class Tally:
    """Integer sums over replies. Addition is exact, so order and framing never matter."""

    replies: int
    sums: Mapping[str, Integers]

    def empty(self) -> "Tally":
        """The tally of nobody, with the same sums."""
        return Tally(0, {name: total * 0 for name, total in self.sums.items()})

    def __add__(self, other: "Tally") -> "Tally":
        sums = {name: total + other.sums[name] for name, total in self.sums.items()}
        return Tally(self.replies + other.replies, sums)


@dataclass(frozen=True, eq=False)
class Through:
    """What a send hides, as a function of a cell: a public map takes every input to one of the send's own inputs.

    So nothing is as long as the inputs are many.
    """

    send: "Send"
    inputs: int
    cells: Callable[["Inputs"], "Inputs"]

    @property
    def rows(self) -> int:
        return self.send.numbers

    def columns(self, indices: "Inputs") -> Floats:
        return self.send.at(self.cells(indices))


class Round:
    """One question, and the replies to it."""

    def __init__(self, protocol: "Protocol", number: int, method: "Method") -> None:
        self.protocol = protocol
        self.number = number
        self.inputs = protocol.inputs
        self.question: Question = method.question  # type: ignore[attr-defined]
        self.name = self.question.name
        self._method = getattr(protocol, method.__name__)
        self._last: tuple[Broadcast, Sends] | None = None

    @cached_property
    def broadcast(self) -> Shape:
        """The arrays the announcement carries: name -> (dtype, shape)."""
        return {
            name: (np.dtype(each.dtype), tuple(self._length(length) for length in each.lengths))
            for name, each in self.question.arrays.items()
        }

    def _length(self, length: int | str) -> int:
        return length if isinstance(length, int) else int(getattr(self.protocol, length))

    def sends(self, public: "Broadcast") -> "Sends":
        """What users send after this broadcast. The last one is kept, because it is asked for chunk by chunk."""
        if self._last is None or self._last[0] is not public:
            self._last = (public, self._ask(public))
        return self._last[1]

    def _ask(self, public: "Broadcast") -> "Sends":
        given: dict[str, Any] = {name: array[()] if array.ndim == 0 else array for name, array in public.items()}
        with np.errstate(all="ignore"):
            sent: Sends = self._method(**given)
        return sent

    @cached_property
    def usual(self) -> "Sends":
        """What users send after the example that the round declares; columns, coins and epsilon are always these."""
        like = {name: each.like for name, each in self.question.arrays.items()}
        return self._ask({name: np.full(shape, like[name], dtype) for name, (dtype, shape) in self.broadcast.items()})

    @cached_property
    def reply(self) -> Shape:
        """The columns of the replies: name -> (dtype, trailing shape of one user's entry)."""
        return _shape(self.usual)

    @cached_property
    def public(self) -> Shape:
        """Columns that are not sent, because they follow from the user's number: name -> (dtype, trailing shape)."""
        return {
            wire_name(name, column): shape
            for name, send in self.usual.items()
            for column, shape in send.randomizer.public.items()
        }

    @cached_property
    def coins(self) -> int:
        """Bytes of coins that one user needs in this round."""
        return sum(send.randomizer.coins for send in self.usual.values())

    @cached_property
    def epsilon(self) -> float:
        """The most that one reply gives away, by basic composition."""
        return sum(send.randomizer.epsilon for send in self.usual.values())

    @property
    def work(self) -> int:
        """Numbers behind one user's reply."""
        return sum(send.randomizer.work for send in self.usual.values())

    def participates(self, users: Users) -> NDArray[np.bool_]:
        """Who answers in this round: a public function of the user's number alone."""
        speaking = [self.protocol.participates(self.number, group) for group in range(self.protocol.groups)]
        if all(speaking):
            return np.ones(len(users), dtype=np.bool_)
        return np.asarray(speaking, dtype=np.bool_)[self.protocol.group_of(users)]

    def speakers(self, first: int, end: int) -> int:
        """How many of the users first .. end - 1 answer in this round."""
        groups = range(self.protocol.groups)
        speaking = np.array([self.protocol.participates(self.number, group) for group in groups], dtype=np.bool_)
        if speaking.all() or not speaking.any():
            return (end - first) * int(speaking.all())
        return int(group_sizes(self.protocol, first, end)[speaking].sum())

    def check_broadcast(self, public: "Broadcast") -> None:
        """The user's own check of a well-formed, finite broadcast; RemoteProtocolError refuses it.

        Everything here is public, so whatever goes wrong goes wrong for every input alike.
        """
        try:
            sent = self.sends(public)
            usable = all(_is_usable(send) for send in sent.values())
            same = _shape(sent) == self.reply and list(sent) == list(self.usual)
            coins = sum(send.randomizer.coins for send in sent.values())
            epsilon = sum(send.randomizer.epsilon for send in sent.values())
        except RemoteProtocolError as error:
            raise RemoteProtocolError(f"round {self.number}: {error}") from None
        except (ParleyError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RemoteProtocolError(f"round {self.number} cannot be answered: {error!s:.200}") from error
        if not usable:
            raise RemoteProtocolError(f"round {self.number}: the broadcast is too long for its products to be numbers")
        if not same or coins != self.coins or not epsilon <= self.epsilon:
            raise RemoteProtocolError(f"round {self.number}: this broadcast asks for other replies than were agreed")

    def respond(self, public: "Broadcast", inputs: "Inputs", coins: Coins, users: Users | None = None) -> Columns:
        """Every user's reply, block by block: it depends on that user alone, and vectors may be large.

        Without `users` they are 0, 1, ...; their numbers matter where there are public coins.
        """
        sent = self.sends(public)
        users = np.arange(len(inputs)) if users is None else users
        rows = max(1, BLOCK_NUMBERS // max(send.numbers for send in sent.values()))
        blocks = [slice(start, start + rows) for start in range(0, len(inputs), rows)] or [slice(0, 0)]
        parts = [_respond(sent, inputs[block], coins[block], users[block]) for block in blocks]
        return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}

    def draw(
        self, public: "Broadcast", inputs: "Inputs", first: int, flip: Flip, may: NDArray[np.bool_] | None = None
    ) -> tuple[Users, Columns]:
        """Who of the users first, first + 1, ... answers, and what they say; `may`: who is allowed to."""
        users = np.arange(first, first + len(inputs), dtype=np.int64)
        speaking = self.participates(users) if may is None else self.participates(users) & may
        rows = max(1, min(DRAWN_USERS, BLOCK_COINS // max(1, self.coins)))
        speakers, parts = list[Users](), list[Columns]()
        for start in range(0, max(1, len(inputs)), rows):
            part = slice(start, start + rows)
            # By number and not by truth value: it is several times faster.
            chosen = np.flatnonzero(speaking[part])
            flips = _rows(flip(first + start, len(users[part]), self.coins), chosen)
            speakers.append(users[part].take(chosen))
            parts.append(self.respond(public, inputs[part].take(chosen), flips, speakers[-1]))
        return np.concatenate(speakers), {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}

    def complete(self, public: "Broadcast", users: Users, replies: Columns) -> Columns:
        """The replies with the public columns of the users who sent them: what is checked, counted and audited."""
        if not self.public:
            return replies
        found = dict(replies)
        for name, send in self.sends(public).items():
            if send.given is not None:
                found |= {wire_name(name, column): values for column, values in send.given(users).items()}
        return found

    def check(self, public: "Broadcast", replies: Columns) -> NDArray[np.bool_]:
        """Which replies lie in the output space of an honest user."""
        checks = [send.randomizer.check(columns_of(name, send, replies)) for name, send in self.sends(public).items()]
        return np.asarray(np.logical_and.reduce(checks), dtype=np.bool_)

    def log_likelihood(self, public: "Broadcast", replies: Columns) -> Floats:
        """Exact log p(reply i | input x) for all k inputs x: an n x k matrix."""
        every = np.arange(self.inputs)
        terms = [
            send.randomizer.log_likelihood(columns_of(name, send, replies), send.at(every))
            for name, send in self.sends(public).items()
        ]
        total: Floats = np.sum(terms, axis=0)
        return total

    def outcomes(self, public: "Broadcast") -> Columns | None:
        """Every reply that a user can send, each once, where there are at most MOST_OUTCOMES; None where not."""
        listed: dict[str, Array] = {}
        size = 1
        for name, send in self.sends(public).items():
            every = send.randomizer.every_reply()
            if every is None:
                return None
            many = len(next(iter(every.values())))
            if size * many > MOST_OUTCOMES:
                return None
            listed = {each: np.repeat(column, many, axis=0) for each, column in listed.items()}
            for column, values in every.items():
                listed[wire_name(name, column)] = np.concatenate([values] * size)
            size *= many
        return listed

    def tally(self, public: "Broadcast", replies: Columns) -> Tally:
        """The sums the analyst keeps of these replies; it keeps no reply."""
        sums = {}
        for name, send in self.sends(public).items():
            mine = columns_of(name, send, replies)
            counts = {"": send.randomizer.total, **send.tallies}
            sums.update({wire_name(name, each): np.asarray(count(mine)) for each, count in counts.items()})
        return Tally(len(next(iter(replies.values()))), sums)

    def could_be(self, public: "Broadcast", tally: Tally) -> bool:
        """Whether so many replies can have sums of this kind, shape and size, as far as randomizers say."""
        columns = {name: np.empty((0, *trailing), dtype) for name, (dtype, trailing) in self.reply.items()}
        like = self.tally(public, self.complete(public, np.zeros(0, np.int64), columns)).sums
        if _kinds(tally.sums) != _kinds(like):
            return False
        for name, send in self.sends(public).items():
            reach, total = send.randomizer.reach, tally.sums[wire_name(name, "")]
            if reach is None or "" in send.tallies or not total.size:
                continue
            if int(total.min()) < reach[0] * tally.replies or int(total.max()) > reach[1] * tally.replies:
                return False
        return True


def _kinds(sums: Mapping[str, Integers]) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    return {name: (np.asarray(total).dtype, np.shape(total)) for name, total in sums.items()}


def wire_name(send: str, column: str) -> str:
    """The name of a column of a reply or of a tally: that of the send, and its own if it has one."""
    return f"{send}.{column}" if column else send


def columns_of(name: str, send: "Send", replies: Columns) -> Columns:
    """The columns of one send, as its randomizer calls them."""
    known = (*send.randomizer.reply, *send.randomizer.public)
    return {column: replies[wire_name(name, column)] for column in known}


def _shape(sent: "Sends") -> Shape:
    return {
        wire_name(name, column): shape for name, send in sent.items() for column, shape in send.randomizer.reply.items()
    }


def _is_usable(send: "Send") -> bool:
    """Whether every input has a value that is a number."""
    if isinstance(send.value, Through):
        return _is_usable(send.value.send)
    if not isinstance(send.value, np.ndarray) or send.value.dtype.kind != "f":
        return True
    return bool(np.isfinite(send.value).all() and np.abs(send.value).max() <= LARGEST_VALUE)


def _rows(coins: Coins, chosen: NDArray[np.intp]) -> Coins:
    """The coins of those who are chosen."""
    if len(chosen) == len(coins):
        return coins
    if coins.shape[1] % 8 or not coins.shape[1]:
        return coins[chosen]
    # As words: it is several times faster.
    return coins.view(np.uint64).take(chosen, axis=0).view(np.uint8)


def _respond(sent: "Sends", inputs: "Inputs", coins: Coins, users: Users) -> Columns:
    replies: dict[str, Array] = {}
    start = 0
    for name, send in sent.items():
        flips = coins[:, start : start + send.randomizer.coins]
        start += send.randomizer.coins
        values = send.at(inputs)
        if send.given is not None:
            values = np.column_stack([values, *send.given(users).values()])
        sampled = send.randomizer.sample(values, flips)
        replies.update({wire_name(name, column): values for column, values in sampled.items()})
    return replies


def group_sizes(protocol: "Protocol", first: int, end: int) -> Integers:
    """How many of the users first .. end - 1 are in each group; counted once for all rounds, because many ask."""
    if protocol.groups == 1:
        return np.array([end - first])
    known = protocol.counted
    if (first, end) not in known:
        found = np.zeros(protocol.groups, dtype=np.int64)
        for start in range(first, end, BLOCK_USERS):
            groups = protocol.group_of(np.arange(start, min(start + BLOCK_USERS, end)))
            found += np.bincount(groups, minlength=protocol.groups)
        if len(known) >= MOST_COUNTS:
            known.clear()
        known[first, end] = found
    return known[first, end]
