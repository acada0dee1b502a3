"""The network of a small world: what is on its way, and everything that may happen next.

What is on its way is a bag: anything in it may arrive next, so reordering costs nothing. Everything else is a fault:

- a frame is lost; a frame arrives and stays on its way (a duplicate, which arrives again whenever it likes);
- a process crashes, between two steps or in the middle of one: before its disk is written, in the middle of an entry,
  with the entry written and the frame not sent, after some of its frames. It comes back at once, on the disk that it
  left. What was on its way to it stays there, or is lost with it. (That it comes back at once loses no schedule: while
  it is down it does nothing, and what arrives then is lost. The same happens if it is slow first, and crashes last.)
- the deadline passes; a timer fires although something is still on its way;
- somebody lies (`lies.py`), where the world allows it.

Time. Reminders, repetitions and farewells wait for a timer. Timers fire freely only when nothing is on its way: they are
made to wait much longer than a message travels, and what they cause is a repetition of something that was said before.
Firing early costs a fault, as duplication does. The deadline passes freely only when somebody has stopped for good and
nothing is on its way: until then a board reminds a thousand times before it gives up.

The analyst hears the record in order: deliveries are numbered, it holds back what comes early and asks for what it
misses. So whatever happens on that link, it hears the same, later; `tests/launch/testkit/world/test_delivery.py` tries
all orders, losses and duplicates on the link alone. Here it hears, at any later moment, all that is on record. Hearing it
in parts makes no difference, because at most one record at a time makes it speak, the last one: the board waits for it.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parley.launch.testkit.world.processes import Heard, Wait
from parley.launch.testkit.world.steps import ANALYST, BOARD, FIRST_NODE, Company, Crash, Standing, Step

TIMER, DEADLINE = Wait(), Wait(deadline=True)


class World(NamedTuple):
    """Where everybody stands, what is on its way, which words were said, and how many faults are left."""

    standings: tuple[int, ...]
    flight: tuple[int, ...]
    words: tuple[int, ...]
    left: int


class Choice(NamedTuple):
    """Something that may happen next: what it is, how many faults it costs, and the world after it."""

    what: str
    cost: int
    after: World


class Network:
    """Everything that may happen in a world. `loses` says whether a crash may lose what was on its way."""

    def __init__(self, company: Company, *, faults: int, reduced: bool = True, early: bool = False) -> None:
        self.company, self.faults, self.reduced, self.early = company, faults, reduced, early
        self._stale: dict[tuple[int, int, int], bool] = {}

    def beginning(self) -> World:
        """Everybody has been started."""
        company = self.company
        steps = [company.start(who, disk, 1) for who, disk in enumerate(company.first_disks)]
        world = World(tuple(step.to.number for step in steps), (), (), self.faults)
        for step in steps:
            world = self._with(world, step)
        return world

    def key(self, world: World) -> tuple[object, ...]:
        """What two worlds that go on in the same way have in common; without reduction, everything."""
        if not self.reduced:
            return world
        company = self.company
        standings = [company.standings[each] for each in world.standings]
        lives = [standing.life for standing in standings]
        flight = []
        for number in world.flight:
            parcel = company.parcels[number]
            current = parcel.life is None or lives[parcel.life[0]] == parcel.life[1]
            flight.append(2 * parcel.canonical + current)
        return (
            tuple(standing.canonical for standing in standings),
            tuple(known == life for known, life in zip(standings[BOARD].lives, lives[FIRST_NODE:], strict=True)),
            company.news(standings[BOARD], standings[ANALYST]) is None,
            tuple(sorted(flight)),
            world.words,
            world.left,
        )

    def choices(self, world: World) -> Iterator[Choice]:
        """Everything that may happen next; nothing if everybody has left."""
        company, left = self.company, world.left
        standings = [company.standings[each] for each in world.standings]
        news = company.news(standings[BOARD], standings[ANALYST])
        for number in dict.fromkeys(world.flight):
            parcel = company.parcels[number]
            name, who = company.everybody[parcel.to], parcel.to
            rest = _without(world.flight, number)
            step = company.move(standings[who], parcel.heard)
            arrived = world._replace(flight=rest)
            yield Choice(f"{parcel.label} arrives at {name}", 0, self._after(arrived, who, step))
            if left:
                yield Choice(f"{parcel.label} to {name} is lost", 1, arrived._replace(left=left - 1))
                twice = self._after(world._replace(left=left - 1), who, step)
                yield Choice(f"{parcel.label} arrives at {name}, and will arrive again", 1, twice)
                why = f"{parcel.label} arrives at {name}, which crashes"
                yield from self._crashes(arrived, who, step.cuts, why)
        if news is not None:
            step = company.move(standings[ANALYST], news)
            yield Choice("the analyst hears the record", 0, self._after(world, ANALYST, step))
            if left:
                yield from self._crashes(world, ANALYST, step.cuts, "the analyst hears the record and crashes")
        idle = not world.flight and news is None
        over = all(each.ended for each in standings[ANALYST:])
        if (left and self.early) or (idle and not over) or left:
            yield from self._timers(world, standings, idle)
        if left:
            for who, standing in enumerate(standings):
                if not standing.ended and not over:
                    now = Crash(standing.disk, (), (), "")
                    yield from self._crashes(world, who, (now,), f"{company.everybody[who]} crashes")

    def _timers(self, world: World, standings: list[Standing], idle: bool) -> Iterator[Choice]:
        company, cost = self.company, 0 if idle else 1
        later = world._replace(left=world.left - cost)
        for who, standing in enumerate(standings):
            if not standing.ended and (idle or self.early):
                step = company.move(standing, TIMER)
                after = self._after(later, who, step)
                if after != later:
                    early = "" if idle else ", although something is on its way"
                    yield Choice(f"the timer of {company.everybody[who]} fires{early}", cost, after)
                    if later.left:
                        why = f"the timer of {company.everybody[who]} fires and it crashes"
                        for crash in self._crashes(later, who, step.cuts, why):
                            yield crash._replace(cost=crash.cost + cost)
        board = standings[BOARD]
        if not board.over:
            free = idle and any(each.is_gone for each in standings[ANALYST:])
            if free or world.left:
                step = company.move(board, DEADLINE)
                paid = world._replace(left=world.left - (not free))
                yield Choice("the deadline passes at the board", int(not free), self._after(paid, BOARD, step))

    def _crashes(
        self, world: World, who: int, crashes: Iterable[Crash], why: str, cost: int = 1
    ) -> Iterator[Choice]:
        """The process comes back on what its disk held, and may crash again while it starts."""
        company = self.company
        before = company.standings[world.standings[who]]
        for crash in crashes:
            disk = crash.disk if who in (BOARD, ANALYST) else self._reopened(crash.disk, who)
            step = company.start(who, disk, before.life + cost)
            left = world.left - 1
            down = self._sent(world, crash.sent, crash.words)._replace(left=left)
            spared = tuple(each for each in down.flight if company.parcels[each].to != who)
            for flight, lost in {down.flight: "", spared: ", and what was on its way to it is lost"}.items():
                back = down._replace(flight=flight)
                text = f"{why}{crash.how}{lost}"
                yield Choice(text, cost, self._after(back, who, step))
                if left:
                    yield from self._crashes(back, who, step.cuts, f"{text}; it crashes again as it starts", cost + 1)

    def _reopened(self, disk: bytes, who: int) -> bytes:
        parties = self.company.parties
        return parties.cast.reopened(disk, parties.identities[self.company.everybody[who]], self.company.fresh_state)

    def _after(self, world: World, who: int, step: Step) -> World:
        standings = (*world.standings[:who], step.to.number, *world.standings[who + 1 :])
        return self._with(world._replace(standings=standings), step)

    def _with(self, world: World, step: Step) -> World:
        return self._sent(world, step.sent, step.words)

    def _sent(self, world: World, sent: tuple[int, ...], words: tuple[int, ...]) -> World:
        """With frames on their way; nothing goes to those who have left."""
        standings, parcels, stale = world.standings, self.company.parcels, self._stale
        flight, coming = list[int](), set[int]()
        for each in world.flight + sent:
            parcel = parcels[each]
            place = (each, standings[parcel.to], standings[parcel.other])
            if place not in stale:
                stale[place] = self._is_stale(each, standings)
            if not stale[place] and not (self.reduced and parcel.canonical in coming):
                flight.append(each)
                coming.add(parcel.canonical)
        said = world.words
        if not set(words) <= set(said):
            said = tuple(sorted({*said, *words}))
        return world._replace(flight=tuple(sorted(flight)), words=said)

    def _is_stale(self, number: int, standings: tuple[int, ...]) -> bool:
        company = self.company
        to = standings[company.parcels[number].to]
        return company.is_stale(to, number, standings) if self.reduced else bool(company.standings[to].ended)


def _without(flight: tuple[int, ...], number: int) -> tuple[int, ...]:
    place = flight.index(number)
    return flight[:place] + flight[place + 1 :]
