"""Search over schedules: a protocol in small virtual runs, each under faults of its own, and what of them goes wrong.

A schedule is a few explicit faults (the second reply of node-1 is lost; the board is killed at its step 41) and a seed
that decides the rest. Schedules have numbers: the same number of the same search is always the same schedule. One that
breaks a rule is shrunk by Hypothesis to the fewest users, faults and steps, and written down as a conditions file with
the command that repeats it.
"""

import logging
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError
from parley.emulator.protocol import Protocol
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.simulate import conversation, result_of
from parley.emulator.transport.conditions import DISK_KINDS, POWER, Direction, Fault
from parley.emulator.wire.messages import Abort, Result
from parley.launch.api import Problem
from parley.launch.cluster.in_memory import LOGGERS
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import Signers, make_signers, write_states
from parley.launch.cluster.virtual_run import Story, VirtualRun
from parley.launch.results.folder import RunFolder
from parley.launch.results.follow import close_broken
from parley.launch.testkit.invariants import Rules, Violation
from parley.launch.testkit.schedules.judge import Judge, Ran
from parley.launch.testkit.schedules.plans import Finding, Plan, Tally, World
from parley.protocols.registry import lookup, needs_shuffler

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Finding", "Plan", "Stage", "Tally", "World", "draw_plan", "search", "shrink"]

RUN = "schedule"
MOST_FAULTS = 5
MOST_NODES = 3
# A protocol may need more users than there are: so many sizes are tried.
MOST_SIZES = 200
# What each link carries towards the board and from it.
UP = ("ready", "replies", "inquiry")
DOWN = ("roster", "setup", "announce", "reminder", "close", "receipt", "seating", "result")
ANALYST_UP = ("setup", "announce", "result", "resume")
ANALYST_DOWN = ("ready", "roster", "setup", "announce", "replies", "close", "result")
LONGEST_AWAY = 2.0


class Stage:
    """Where schedules of one world are played. Use as a context: its folder is gone when it is left."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._questions: dict[tuple[int, float], tuple[Problem, Protocol, Result | None]] = {}
        self._sets: dict[tuple[int, int, int, float], tuple[Layout, Signers, Judge]] = {}
        self._steps: dict[tuple[int, int, int, float], Counter[str] | None] = {}
        self._folder: Path | None = None
        self._count = 0

    def __enter__(self) -> "Stage":
        self._quiet = quiet_logs()
        self._quiet.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="parley-schedules-"))
        return self

    def __exit__(self, *_: object) -> None:
        self._quiet.__exit__(None, None, None)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def play(self, plan: Plan, keep: Path | None = None) -> tuple[list[Violation], Story, bool]:
        """Play one schedule: what it broke, what happened, and whether it completed. `keep`: leave its folder here."""
        layout, signers, judge = self._set(plan)
        assert self._folder is not None, "a stage is used as a context"
        self._count += 1
        folder = RunFolder(run=RUN, path=keep or self._folder / str(self._count), default=False)
        said: list[tuple[str, bytes]] = []
        error: ParleyError | None = None
        try:
            folder.create()
            write_states(layout, folder, signers, None)
            run = VirtualRun(
                layout,
                folder,
                signers,
                seed=self.world.seed,
                conditions=plan.conditions,
                heard=lambda name, frame: said.append((name, frame)),
                parts=self.world.parts,
            )
            try:
                run.play()
                if isinstance(run.story.ending, Abort):
                    error = LocalProtocolError(run.story.ending.reason)
            except ParleyError as caught:
                error = caught
                close_broken(folder.transcript, RUN, caught, run.clock.time_ns)
            damaged = frozenset(each.nodes for each in plan.faults if each.kind in (POWER, *DISK_KINDS))
            ran = Ran(folder=folder, said=said, story=run.story, error=error, may_fail=plan.may_fail, damaged=damaged)
            return judge.judge(ran), run.story, error is None
        finally:
            if keep is None:
                shutil.rmtree(folder.path, ignore_errors=True)

    def steps(self, quiet: Plan) -> Counter[str] | None:
        """How many steps each process takes when nothing happens; None where the quiet run has no result."""
        # While all answer, it does not matter how many are enough.
        quiet = replace(quiet, quorum=1.0)
        if quiet.size not in self._steps:
            completed = self._asked(quiet)[2] is not None
            if completed:
                _, story, completed = self.play(quiet)
            self._steps[quiet.size] = story.steps if completed else None
        return self._steps[quiet.size]

    def shuffled(self, plan: Plan) -> bool:
        """Whether a shuffler takes part."""
        return self._set(plan)[0].shuffled

    def _set(self, plan: Plan) -> tuple[Layout, Signers, Judge]:
        """What does not change from schedule to schedule."""
        if plan.size not in self._sets:
            asked, chosen, result = self._asked(plan)
            shape = {"processes": plan.nodes, "relays": plan.relays, "quorum": plan.quorum, "in_memory": True}
            layout = asked.layout(chosen, seed=self.world.seed, **shape)
            rules = Rules(chosen, layout.inputs, layout.key, result)
            self._sets[plan.size] = layout, make_signers(layout), Judge(rules)
        return self._sets[plan.size]

    def _asked(self, plan: Plan) -> tuple[Problem, Protocol, Result | None]:
        """The protocol for so many users, with the result of the roles alone: both may take longer than a schedule."""
        world, asked = self.world, self.world.problem(plan.users)
        # A shuffler must not post fewer replies, so privacy is computed for so many; to others it makes no difference.
        quorum = plan.quorum if needs_shuffler(lookup(world.protocol)) else 1.0
        if (plan.users, quorum) not in self._questions:
            chosen = asked.protocol(world.protocol, world.epsilon, delta=world.delta, quorum=quorum, seed=world.seed)
            layout = asked.layout(chosen, seed=world.seed, processes=1, in_memory=True)
            result: Result | None = None
            with suppress(ParleyError):
                result = result_of(conversation(chosen, layout.inputs, layout.key, run=RUN, domain=layout.domain))
            self._questions[plan.users, quorum] = asked, chosen, result
        return self._questions[plan.users, quorum]


def search(
    world: World,
    count: int,
    *,
    seed: int = 0,
    enough: int = 1,
    progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Play so many schedules, or until `enough` of them broke a rule."""
    tally = Tally()
    with Stage(world) as stage:
        for number in range(count):
            try_one(stage, tally, seed, number)
            if progress is not None:
                progress(tally)
            if len(tally.findings) >= enough:
                break
    return tally


def try_one(stage: Stage, tally: Tally, seed: int, number: int) -> None:
    """Play the schedule of this number, and count it."""
    plan = draw_plan(stage, random.Random(f"{seed} {number}"))
    violations, story, completed = stage.play(plan)
    tally.schedules += 1
    tally.completed += completed
    tally.failed += not completed
    tally.virtual_seconds += story.seconds
    tally.faults.update(each.kind for each in plan.faults)
    tally.killed.update(_sort_of(exit.name) for exit in story.exits if exit.status < 0)
    if violations:
        tally.findings.append(Finding(number=number, plan=plan, violations=tuple(violations)))


def draw_plan(stage: Stage, chance: random.Random) -> Plan:
    """A schedule: between one and a few faults, kills of any process first of all."""
    world = stage.world
    why = "the quiet run ends without a result"
    for _ in range(MOST_SIZES):
        users = chance.randint(world.fewest, world.most)
        quiet = Plan(users=users, nodes=chance.randint(1, min(MOST_NODES, users)))
        try:
            shuffled = stage.shuffled(quiet)
            if not shuffled:
                relays = 1 if quiet.nodes > 1 and chance.random() < 0.1 else 0
                quiet = replace(quiet, relays=relays, quorum=0.5 if chance.random() < 0.2 else 1.0)
            steps = stage.steps(quiet)
        except BadInput as error:
            why, steps = str(error), None
        if steps is not None:
            break
    else:
        between = f"{world.fewest} to {world.most} users"
        raise BadInput(f"{world.protocol} cannot be tried with {between}: {why}; give more users")
    names = [f"node-{number}" for number in range(quiet.nodes)]
    middle = [SHUFFLER_NAME] if shuffled else [f"relay-{number}" for number in range(quiet.relays)]
    everybody = [BOARD_NAME, ANALYST_NAME, *middle, *names]
    # Whose state is forced to disk before anything follows from it; that of the board is not, so its power stays on.
    durable = [*names, *([SHUFFLER_NAME] if shuffled else [])]
    faults = tuple(_draw_fault(chance, everybody, durable, steps) for _ in range(chance.randint(1, MOST_FAULTS)))
    return replace(quiet, seed=chance.randrange(2**32), faults=faults)


def _draw_fault(chance: random.Random, everybody: list[str], durable: list[str], steps: Counter[str]) -> Fault:
    kinds = {
        "kill": 10, "pause": 2, "power": 1, "late": 1, "loss": 4, "duplicate": 3, "reorder": 2, "delay": 2,
        "corrupt": 2, "partition": 1, "straggler": 1, "disk-full": 0.3, "disk-error": 0.3,
    }  # fmt: skip
    kind = chance.choices(list(kinds), list(kinds.values()))[0]
    away = round(chance.uniform(0.0, LONGEST_AWAY), 2)
    if kind in ("kill", "pause", "power"):
        victim = chance.choice(durable if kind == POWER else everybody)
        step = chance.randint(1, max(2, int(1.5 * steps[victim])))
        restart = kind == "pause" or chance.random() < 0.97
        return Fault(kind=kind, nodes=victim, step=step, seconds=away, restart=restart)
    if kind in ("late", *DISK_KINDS):
        counted = () if kind == "late" else (chance.randint(1, 12),)
        return Fault(kind=kind, nodes=chance.choice(durable), seconds=away if kind == "late" else 0.0, nth=counted)
    victim = chance.choice([each for each in everybody if each != BOARD_NAME])
    if kind in ("partition", "straggler"):
        until = round(away + chance.uniform(0.0, LONGEST_AWAY), 2)
        return Fault(kind=kind, nodes=victim, after=away, until=until, seconds=away if kind == "straggler" else 0.0)
    direction: Direction = "up" if chance.random() < 0.5 else "down"
    up, down = (ANALYST_UP, ANALYST_DOWN) if victim == ANALYST_NAME else (UP, DOWN)
    message = chance.choice(up if direction == "up" else down)
    nth = tuple(sorted(chance.sample(range(1, 6), chance.choice((1, 1, 2)))))
    seconds = away if kind in ("reorder", "delay") else 0.0
    return Fault(kind=kind, nodes=victim, direction=direction, messages=(message,), nth=nth, seconds=seconds)


def shrink(world: World, finding: Finding, *, examples: int = 400) -> Finding:
    """The smallest schedule that Hypothesis finds below this one and that breaks one of the same rules."""
    try:
        from hypothesis import HealthCheck, Phase, errors, settings
        from hypothesis import find as find_smallest
    except ImportError:
        raise BadInput("shrinking needs another package: pip install 'parley-ldp[test-kit]'") from None
    with Stage(world) as stage:

        def breaks(plan: Plan) -> bool:
            return bool(finding.rules & {each.rule for each in stage.play(plan)[0]})

        smallest = finding.plan
        with suppress(errors.NoSuchExample):
            smallest = find_smallest(
                _smaller(world, finding.plan),
                breaks,
                settings=settings(
                    max_examples=examples,
                    database=None,
                    deadline=None,
                    phases=(Phase.generate, Phase.shrink),
                    suppress_health_check=list(HealthCheck),
                ),
                random=random.Random(0),
            )
        smallest = _without_idle_faults(smallest, breaks)
        return replace(finding, plan=smallest, violations=tuple(stage.play(smallest)[0]))


def _smaller(world: World, plan: Plan) -> "SearchStrategy[Plan]":
    """A strategy for schedules with some of the faults of this one, each as it was or milder. Simplest is nothing."""
    from hypothesis import strategies as st

    def milder(fault: Fault) -> "SearchStrategy[Fault | None]":
        same, (sort, _, number) = st.just, fault.nodes.partition("-")
        others = [f"{sort}-{each}" for each in range(int(number) + 1)] if number.isdigit() else [fault.nodes]
        choices: dict[str, SearchStrategy[Any]] = {
            "nodes": st.sampled_from(others),
            "step": st.one_of(st.integers(1, fault.step), same(fault.step)) if fault.step else same(0),
            "nth": st.sampled_from([*((each,) for each in fault.nth), fault.nth]) if fault.nth else same(()),
            "seconds": st.sampled_from([0.0, 0.1, 1.0, fault.seconds]) if fault.seconds else same(0.0),
        }
        return st.one_of(st.none(), st.fixed_dictionaries(choices).map(lambda changes: replace(fault, **changes)))

    def made(users: int, nodes: int, relays: int, faults: tuple[Fault | None, ...], **more: Any) -> Plan:
        nodes = min(nodes, users)
        kept = tuple(fault for fault in faults if fault is not None)
        return Plan(users=users, nodes=nodes, relays=min(relays, nodes), faults=kept, **more)

    return st.builds(
        made,
        users=st.integers(min(world.fewest, plan.users), plan.users),
        nodes=st.integers(1, plan.nodes),
        relays=st.integers(0, plan.relays),
        quorum=st.sampled_from(sorted({1.0, plan.quorum}, reverse=True)),
        seed=st.sampled_from(sorted({0, 1, 2, 3, plan.seed})),
        faults=st.tuples(*map(milder, plan.faults)),
    )


def _without_idle_faults(plan: Plan, breaks: Callable[[Plan], bool]) -> Plan:
    """Leave out, one by one, what is not needed."""
    for fault in plan.faults:
        fewer = replace(plan, faults=tuple(each for each in plan.faults if each is not fault))
        if breaks(fewer):
            plan = fewer
    return plan


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Inside, virtual processes write no logs."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _sort_of(name: str) -> str:
    return name.split("-")[0]
