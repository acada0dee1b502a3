"""The network of a small world: what is on its way, and everything that may happen next.

What is on its way is a set: anything in it may arrive next, so reordering costs nothing. Everything else is a fault:

- a frame is lost; a frame arrives again, however late;
- a process crashes, between two steps or in the middle of one: before its disk is written, in the middle of an entry,
  with the entry written and the frame not sent, after some of its frames. It comes back at once, on the disk that it
  left. What was on its way to a node, a relay or a shuffler is lost with it; what was on its way to the board stays
  there, or is lost with it. (That it comes back at once loses no schedule: while it is down it does nothing, and what
  arrives then is lost. The same happens if it is slow first, and crashes last.)
- the deadline passes; somebody lies, where the world has lies.

Time. Reminders, repetitions and farewells wait for a timer. Timers fire freely only when nothing is on its way: they
wait much longer than a message travels, and what they cause is a repetition of something that was said before. With
`early` they may fire at any time, for a fault. The deadline passes freely only when somebody has stopped for good
and nothing is on its way: until then a board reminds many times before it gives up. Where somebody lies, a node may sit
in a run that never was: there the board and, at the end, the node give up freely.

All clocks go at the same pace. So while others wait for their timers, one timer fires at most `IN_A_ROW` times before
each of them has fired: else the reminders of a board would add up to its deadline before a shuffler asks once for what
it misses. A reduced world needs no such rule: there, a board that has reminded twice is one that has reminded once.

The analyst hears the record in order: deliveries are numbered, it holds back what comes early and asks for what it
misses. So whatever happens on that link, it hears the same, later; `tests/launch/testkit/world/test_delivery.py` tries
all orders, losses and duplicates on the link alone. Here it hears, at any later moment, all that is on record. Hearing
it in parts makes no difference: at most one record at a time makes it speak, the last one, and the board waits for it.

What is left out (`reduced`). The first two lose nothing; the third is a bound on the schedules that are tried:

- Worlds that differ only in what `digest.py` calls canonical go on in the same way.
- A world in which less may still go wrong does nothing that the same world cannot do with more faults left.
- A frame that its receiver has taken, or whose sender waits for it no more, is dropped (`Company.is_stale`). It may
  still arrive late, for a fault, as a frame that arrives again. A second copy of what is on its way is such a frame.
  So a schedule in which such frames come late is tried only if they and the other faults are at most `faults`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from parley.emulator.wire import messages as wire
from parley.launch.testkit.world.processes import Wait
from parley.launch.testkit.world.steps import ANALYST, BOARD, FIRST_NODE, Company, Crash, Standing, Step

TIMER, DEADLINE = Wait(), Wait(deadline=True)
REPEATED = (wire.Setup, wire.Announce, wire.Result, wire.Abort)
IN_A_ROW = 2
What = tuple[str, ...]
"""A text with gaps and what to put there: it is written only if somebody reads it."""


class World(NamedTuple):
    """Where everybody stands, what is on its way, which words were said, how many faults are left, and `turns`.

    These are how often each timer has fired since others that were waited for did not. A reduced world counts none.
    """

    standings: tuple[int, ...]
    flight: tuple[int, ...]
    words: tuple[int, ...]
    left: int
    turns: tuple[int, ...] = ()


class Choice(NamedTuple):
    """Something that may happen next: what it is, how many faults it costs, and the world after it."""

    what: What
    cost: int
    after: World


class Network:
    """Everything that may happen in a world. `lies`: what somebody may say to a node who has the keys, by name."""

    def __init__(
        self,
        company: Company,
        *,
        faults: int,
        reduced: bool = True,
        early: bool = False,
        lies: Mapping[str, Mapping[int, Sequence[int]]] | None = None,
    ) -> None:
        self.company, self.faults, self.reduced, self.early, self.lies = company, faults, reduced, early, lies or {}
        self._stale: dict[tuple[int, ...], bool] = {}
        self._again: dict[int, tuple[int, ...]] = {}

    def beginning(self) -> World:
        """Everybody has been started."""
        company = self.company
        steps = [company.start(who, disk, 1) for who, disk in enumerate(company.first_disks)]
        world = World(tuple(step.to.number for step in steps), (), (), self.faults)
        for step in steps:
            world = self._sent(world, step.sent, step.words)
        return world

    def key(self, world: World) -> tuple[object, ...]:
        """What worlds that go on in the same way have in common, but for the faults that are left."""
        if not self.reduced:
            return world
        company = self.company
        standings = [company.standings[each] for each in world.standings]
        board, lives, flight = standings[BOARD], [standing.life for standing in standings], []
        for number in world.flight:
            parcel = company.parcels[number]
            current = parcel.life is None or lives[parcel.life[0]] == parcel.life[1]
            flight.append(2 * parcel.canonical + current)
        flight.sort()
        return (
            *(standing.canonical for standing in standings),
            *(known == lives[who] for known, who in zip(board.lives, company.seated, strict=True)),
            company.news(board.number, world.standings[ANALYST]) is None,
            world.words,
            *flight,
        )

    def choices(self, world: World) -> Iterator[Choice]:
        """Everything that may happen next; nothing at the end."""
        company, left = self.company, world.left
        standings = [company.standings[each] for each in world.standings]
        names, parcels = company.everybody, company.parcels
        news = company.news(world.standings[BOARD], world.standings[ANALYST])
        for number in dict.fromkeys(world.flight):
            parcel = parcels[number]
            who, name = parcel.to, names[parcel.to]
            step = company.move(standings[who], parcel.heard)
            rest = world._replace(flight=_without(world.flight, number))
            yield Choice(("{} arrives at {}", parcel.label, name), 0, self._after(rest, who, step))
            if left:
                yield Choice(("{} is lost on its way to {}", parcel.label, name), 1, rest._replace(left=left - 1))
                if not isinstance(parcel.message, REPEATED) and parcel.word is None:
                    twice = self._after(world._replace(left=left - 1), who, step)
                    yield Choice(("{} arrives at {}, and will arrive again", parcel.label, name), 1, twice)
                why = ("{} arrives at {}, which crashes", parcel.label, name)
                yield from self._crashes(rest, who, step.cuts, why)
        if news is not None:
            step = company.move(standings[ANALYST], news)
            yield Choice(("the analyst hears the record",), 0, self._after(world, ANALYST, step))
            if left:
                yield from self._crashes(world, ANALYST, step.cuts, ("the analyst hears the record and crashes",))
        if self.is_over(standings) and not world.flight:
            return
        idle = not world.flight and news is None
        if idle or (left and self.early):
            yield from self._timers(world, standings, 0 if idle else 1)
        if self.lies and idle and standings[BOARD].over:
            yield from self._silence(world, standings)
        if not standings[BOARD].over:
            cost = 0 if idle and (self.lies or any(each.is_gone for each in standings[ANALYST:])) else 1
            if cost <= left:
                step = company.move(standings[BOARD], DEADLINE)
                late = self._after(world._replace(left=left - cost), BOARD, step)
                yield Choice(("the deadline passes at the board",), cost, late)
                if company.parties.shuffled and not standings[company.seated[0]].ended:
                    shuffler = company.seated[0]
                    step = company.move(standings[shuffler], DEADLINE)
                    # Before a round is open the passing of time means nothing but that it asks again.
                    if any(isinstance(company.parcels[each].message, wire.Refusal) for each in step.sent):
                        late = self._after(world._replace(left=left - cost), shuffler, step)
                        yield Choice(("the deadline passes at the shuffler",), cost, late)
        if left:
            yield from self._again_and_lies(world, standings)
            for who, standing in enumerate(standings):
                if not standing.ended:
                    now = Crash(standing.disk, (), (), "")
                    yield from self._crashes(world, who, (now,), ("{} crashes", names[who]))

    def is_over(self, standings: Sequence[Standing]) -> bool:
        """Whether the run is over and everybody has left but those who serve them."""
        middle = self.company.middle
        return standings[BOARD].over and all(each.ended or each.who == middle for each in standings[ANALYST:])

    def _timers(self, world: World, standings: list[Standing], cost: int) -> Iterator[Choice]:
        company = self.company
        steps = [
            (who, step)
            for who, standing in enumerate(standings)
            if not standing.ended and ((step := company.move(standing, TIMER)).to is not standing or step.sent)
        ]
        for who, step in steps:
            turns = self._turns(world, who, [other for other, _ in steps if other != who])
            if turns is None:
                continue
            later = world._replace(left=world.left - cost, turns=turns)
            name = company.everybody[who]
            text = "the timer of {} fires" + (" early" if cost else "")
            yield Choice((text, name), cost, self._after(later, who, step))
            if later.left:
                for crash in self._crashes(later, who, step.cuts, (text + ", and it crashes", name)):
                    yield crash._replace(cost=crash.cost + cost)

    def _turns(self, world: World, who: int, others: Sequence[int]) -> tuple[int, ...] | None:
        """How often each timer has fired once this one has; None while it is the turn of others."""
        if self.reduced:
            return ()
        before = world.turns or (0,) * len(world.standings)
        if all(before[each] for each in others):
            before = (0,) * len(before)
        elif before[who] == IN_A_ROW:
            return None
        return (*before[:who], before[who] + 1, *before[who + 1 :])

    def _silence(self, world: World, standings: list[Standing]) -> Iterator[Choice]:
        """A node that sits in a run that never was waits until it gives up."""
        for who in range(FIRST_NODE, len(standings)):
            if not standings[who].ended:
                step = self.company.move(standings[who], DEADLINE)
                yield Choice(("{} gives up", self.company.everybody[who]), 0, self._after(world, who, step))

    def _again_and_lies(self, world: World, standings: list[Standing]) -> Iterator[Choice]:
        """Any broadcast on record may arrive again at any node, and whatever was said to the board at the board."""
        company, later = self.company, world._replace(left=world.left - 1)
        again = [*self._broadcasts(standings[BOARD].number), *(company.spoken[word] for word in world.words)]
        for number in again:
            parcel = company.parcels[number]
            standing = standings[parcel.to]
            if standing.ended or (number in world.flight and parcel.to != BOARD):
                continue
            step = company.move(standing, parcel.heard)
            if step.to is not standing or step.sent:
                what = ("{} arrives again at {}", parcel.label, company.everybody[parcel.to])
                yield Choice(what, 1, self._after(later, parcel.to, step))
        for name, told in self.lies.items():
            for who, numbers in told.items():
                if not standings[who].ended:
                    what = ("somebody lies to {}: {}", company.everybody[who], name)
                    yield Choice(what, 1, self._sent(later, tuple(numbers), ()))

    def _broadcasts(self, board: int) -> tuple[int, ...]:
        """Everything on record that was said to all, once for every node."""
        if board not in self._again:
            company = self.company
            parcels = [company.parcels[each] for each in company.standings[board].records]
            self._again[board] = tuple(
                company.parcel(name, each.frame).number
                for each in parcels
                if isinstance(each.message, REPEATED)
                for name in ([company.parties.middle] if company.parties.middle else company.parties.names)
            )
        return self._again[board]

    def _crashes(self, world: World, who: int, crashes: Iterable[Crash], why: What, cost: int = 1) -> Iterator[Choice]:
        """The process comes back on what its disk held, and may crash again while it starts."""
        company = self.company
        life = company.standings[world.standings[who]].life + 1
        for crash in crashes:
            step = company.start(who, company.reopened(who, crash.disk), life)
            down = self._sent(world, crash.sent, crash.words)._replace(left=world.left - 1)
            spared = tuple(each for each in down.flight if company.parcels[each].to != who)
            kept = (down.flight, "") if len(spared) < len(down.flight) and who == BOARD else None
            for flight, lost in filter(None, (kept, (spared, ", with all that was on its way to it" if kept else ""))):
                back = down._replace(flight=flight)
                text = (f"{why[0]}{crash.how}{lost}", *why[1:])
                after = self._after(back, who, step)
                yield Choice(text, cost, after)
                if down.left:
                    again = (f"{text[0]}; it crashes again as it starts", *why[1:])
                    # So far it has not said that it is back: what it starts with is what the crash left.
                    started = back._replace(standings=after.standings)
                    yield from self._crashes(started, who, step.cuts, again, cost + 1)

    def _after(self, world: World, who: int, step: Step) -> World:
        standings = (*world.standings[:who], step.to.number, *world.standings[who + 1 :])
        return self._sent(world._replace(standings=standings), step.sent, step.words)

    def _sent(self, world: World, sent: tuple[int, ...], words: tuple[int, ...]) -> World:
        """With frames on their way, but those that come too late."""
        standings, parcels, stale = world.standings, self.company.parcels, self._stale
        flight, coming = list[int](), set[int]()
        for each in world.flight + sent:
            parcel = parcels[each]
            # What is passed on may come too late for any node.
            others = standings if parcel.to == self.company.middle else (standings[parcel.to], standings[parcel.other])
            place = (each, *others)
            if place not in stale:
                stale[place] = self._is_stale(each, standings)
            if not stale[place] and not (self.reduced and parcel.canonical in coming):
                flight.append(each)
                coming.add(parcel.canonical)
        flight.sort()
        said = world.words
        if not set(words) <= set(said):
            said = tuple(sorted({*said, *words}))
        return world._replace(flight=tuple(flight), words=said)

    def _is_stale(self, number: int, standings: tuple[int, ...]) -> bool:
        company = self.company
        if not self.reduced:
            return bool(company.standings[standings[company.parcels[number].to]].ended)
        return company.is_stale(number, standings)


def _without(flight: tuple[int, ...], number: int) -> tuple[int, ...]:
    place = flight.index(number)
    return flight[:place] + flight[place + 1 :]
