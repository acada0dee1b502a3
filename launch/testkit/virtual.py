"""Schedules in virtual time, many at random."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.launch.testkit.schedules import Finding, Tally, World, search, shrink
from parley.launch.testkit.target import Target
from parley.launch.testkit.verdicts import Effort, Said, Step, Verdict, passed, unknown

SCHEDULES: dict[Effort, int] = {"quick": 400, "usual": 3000, "thorough": 20_000}
SECONDS: dict[Effort, float] = {"quick": 5.0, "usual": 30.0, "thorough": 600.0}
# Schedules are played in batches, each with a seed of its own, and something is shown in between.
BATCH = 25
EPSILON = 1.0
# Those who hide each other's replies must be more.
SIZES = ((2, 6), (20, 24), (60, 64))


def judge_schedules(target: Target, effort: Effort) -> Iterator[Said]:
    """Random schedules with losses, duplicates, partitions, kills, torn writes: no rule is broken in any of them."""
    check, total = "random schedules", Tally()
    try:
        world = world_of(target)
    except BadInput as error:
        yield unknown(check, f"a few users cannot play it in memory: {error!s:.200}")
        return
    began = time.perf_counter()
    wanted, seconds = SCHEDULES[effort], SECONDS[effort]
    for seed in range(wanted // BATCH):
        passed_time = time.perf_counter() - began
        yield Step(f"schedules: {total.schedules} played", max(seed * BATCH / wanted, passed_time / seconds))
        if passed_time > seconds:
            break
        add(total, search(world, BATCH, seed=seed))
        if total.findings:
            yield Step("schedules: shrinking the one that fails", 1.0)
            yield shrunk(world, total)
            return
    killed = sum(total.killed.values())
    spent = time.perf_counter() - began
    yield passed(
        check,
        f"{total.schedules:,} schedules, {killed:,} kills, no rule broken; {total.schedules / spent:.0f} a second",
        completed=total.completed,
        ended_cleanly=total.failed,
        faults=dict(total.faults),
        killed=dict(total.killed),
        virtual_hours=total.virtual_seconds / 3600,
    )


def world_of(target: Target) -> World:
    """The small problem of a target, with as few users as it can be played by; BadInput if these are not few enough."""
    problem = target.problems[0]
    world = World(
        protocol=target.name,
        statistic=problem.get("statistic"),
        levels=str(problem["levels"]),
        protocol_file=target.file,
        epsilon=float(problem.get("epsilon", EPSILON)),
    )
    for fewest, most in SIZES:
        world = replace(world, fewest=fewest, most=most)
        try:
            search(world, 1)
        except BadInput:
            if (fewest, most) == SIZES[-1]:
                raise
            continue
        break
    return world


def add(total: Tally, batch: Tally) -> None:
    """What a batch has tried comes to what was tried before."""
    total.schedules += batch.schedules
    total.completed += batch.completed
    total.failed += batch.failed
    total.virtual_seconds += batch.virtual_seconds
    total.faults.update(batch.faults)
    total.killed.update(batch.killed)
    total.findings += batch.findings


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
