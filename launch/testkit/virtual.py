"""Schedules in virtual time: many at random, and all of a world of two users."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.launch.testkit.contract.checks import many
from parley.launch.testkit.contract.play import CRASHES
from parley.launch.testkit.schedules.search import Finding, Stage, Tally, World, draw_plan, shrink, try_one
from parley.launch.testkit.target import Target
from parley.launch.testkit.verdicts import Effort, Said, Step, Verdict, failed, passed, unknown
from parley.launch.testkit.world.explore import Report, explore

SCHEDULES: dict[Effort, int] = {"quick": 400, "usual": 3000, "thorough": 20_000}
SECONDS: dict[Effort, float] = {"quick": 5.0, "usual": 30.0, "thorough": 600.0}
# However long they take.
LEAST_SCHEDULES = 25
SHOW_EVERY = 5
FAULTS: dict[Effort, int] = {"quick": 0, "usual": 1, "thorough": 2}
EPSILON = 1.0
# Those who hide each other's replies must be more.
SIZES = ((2, 6), (20, 24), (60, 64))


def judge_schedules(target: Target, effort: Effort) -> Iterator[Said]:
    """Random schedules with losses, duplicates, partitions, kills, torn writes: no rule is broken in any of them."""
    check, total, wanted, seconds = "random schedules", Tally(), SCHEDULES[effort], SECONDS[effort]
    began = time.perf_counter()
    with ExitStack() as stack:
        try:
            stage = stack.enter_context(stage_of(target))
        except BadInput as error:
            yield unknown(check, f"a few users cannot play it in memory: {error!s:.200}")
            return
        for number in range(wanted):
            spent = time.perf_counter() - began
            if spent > seconds and number >= LEAST_SCHEDULES:
                break
            if number % SHOW_EVERY == 0:
                yield Step(f"schedules: {number} played", min(1.0, max(number / wanted, spent / seconds)))
            try_one(stage, total, 0, number)
            if total.findings:
                yield Step("schedules: shrinking the one that fails", 1.0)
                yield shrunk(stage.world, total)
                return
    killed, spent = total.killed.total(), time.perf_counter() - began
    yield passed(
        check,
        f"{total.schedules:,} schedules, {killed:,} kills, no rule broken; {total.schedules / spent:.0f} a second",
        completed=total.completed,
        ended_cleanly=total.failed,
        faults=dict(total.faults),
        killed=dict(total.killed),
        virtual_hours=total.virtual_seconds / 3600,
    )


@contextmanager
def stage_of(target: Target) -> Iterator[Stage]:
    """A stage for the small problem of a target, with as few users as can play it; BadInput if these are too many."""
    problem, refusal = target.problems[0], BadInput("")
    for fewest, most in SIZES:
        world = World(
            protocol=target.name,
            statistic=problem.get("statistic"),
            levels=str(problem["levels"]),
            protocol_file=target.file,
            epsilon=float(problem.get("epsilon", EPSILON)),
            fewest=fewest,
            most=most,
        )
        with Stage(world) as stage:
            try:
                draw_plan(stage, random.Random(0))
            except BadInput as error:
                refusal = error
                continue
            yield stage
            return
    raise refusal


def shrunk(world: World, tally: Tally) -> Verdict:
    """The schedule that broke a rule, as small as it can be made, with the command that repeats it."""
    finding: Finding = tally.findings[0]
    if find_spec("hypothesis") is not None:
        finding = shrink(world, finding)
    conditions = Path(tempfile.mkdtemp(prefix="parley-test-")) / "found.toml"
    conditions.write_text(finding.plan.as_toml())
    says = f"{finding.violations[0]} ({finding.plan.users} users, {len(finding.plan.faults)} faults, after "
    evidence = {
        "violations": [str(each) for each in finding.violations],
        "conditions": finding.plan.as_toml(),
        "schedules": tally.schedules,
    }
    return Verdict(
        check="random schedules",
        outcome="fail",
        says=f"{says}{tally.schedules} schedules)",
        repeat=finding.plan.command(world, conditions),
        evidence=evidence,
    )


def judge_small_world(target: Target, effort: Effort) -> Iterator[Said]:
    """Two users and every order of delivery, loss, duplicate and crash: what must hold holds in every state."""
    check, faults = "every schedule of two users", FAULTS[effort]
    try:
        case = target.case({**target.problems[0], "users": 2}, EPSILON)
        report: Report | None = None
        for said in told(lambda tell: explore_in(case.protocol, faults, tell)):
            if isinstance(said, Step):
                yield said
            else:
                report = said
        assert report is not None
    except BadInput as error:
        yield unknown(check, f"it cannot be played by two users: {error!s:.200}")
        return
    ends = many(len(report.outcomes), "kind") + " of end"
    size = f"{report.states:,} states, {report.transitions:,} steps"
    evidence = {"states": report.states, "merged": report.merged, "outcomes": dict(report.outcomes), "faults": faults}
    if report.violation is not None:
        says = f"{report.violation.what} (after {len(report.violation.schedule)} steps, {size})"
        yield failed(check, says, schedule=list(report.violation.schedule), **evidence)
    else:
        allowed = {0: "without faults", 1: "with at most one fault"}.get(faults, f"with at most {faults} faults")
        yield passed(check, f"{size}, {allowed}: no rule is broken; {ends}", **evidence)


Tell = Callable[[Step], None]


def explore_in(protocol: Protocol, faults: int, tell: Tell) -> Report:
    """Explore, and tell how many states there are so far."""

    def progress(visited: int, known: int) -> None:
        tell(Step(f"small world: {visited:,} of {known:,} states", visited / max(1, known)))

    inputs = (0, 1) if protocol.inputs > 1 else (0, 0)
    return explore(protocol, inputs, faults=faults, progress=progress)


def told(work: Callable[[Tell], Report]) -> Iterator[Step | Report]:
    """What work tells while it goes on in a thread, and what it gives in the end."""
    queue: SimpleQueue[Step | Report | Exception] = SimpleQueue()

    def run() -> None:
        try:
            queue.put(work(queue.put))
        except CRASHES as error:
            queue.put(error)

    Thread(target=run, name="small world", daemon=True).start()
    while True:
        said = queue.get()
        if isinstance(said, Exception):
            raise said
        yield said
        if isinstance(said, Report):
            return
