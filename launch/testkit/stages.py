"""The stages of `parley test`, in their order, and what they say about one protocol."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from queue import SimpleQueue
from threading import Event, Thread

from parley.emulator.arithmetic import one_thread
from parley.emulator.errors import BadInput, ParleyError
from parley.launch.settings import release
from parley.launch.testkit.contract import behaviour, exact, nodes, restart
from parley.launch.testkit.contract.checks import Check
from parley.launch.testkit.contract.scene import Scene
from parley.launch.testkit.target import Target
from parley.launch.testkit.verdicts import Effort, Judge, Report, Said, Stage, Step, Verdict

# In this order: what is cheap and exact first.
CHECKS: tuple[Check, ...] = (
    exact.check_budget,
    exact.check_parameters,
    exact.check_likelihoods,
    exact.check_loss,
    exact.check_sampler,
    exact.check_crafted,
    behaviour.check_coins,
    restart.check_restart,
    behaviour.check_sharding,
    behaviour.check_tallies,
    behaviour.check_hostile,
    behaviour.check_visible,
    nodes.check_nodes,
)
# Name -> module of this package and function, and what it looks for.
MODULES = {
    "contract": ("stages.judge", "What every protocol owes its users, by enumeration where that is possible."),
    "accuracy": ("accuracy.judge", "Bias, error against prediction, coverage."),
    "schedules": ("virtual.judge_schedules", "Many schedules in virtual time, with losses, partitions, kills."),
    "small-world": ("virtual.judge_small_world", "Every schedule of two users with few faults."),
    "processes": ("processes.judge", "Real processes under ready-made conditions, with kills."),
}


def judge(target: Target, effort: Effort) -> Iterator[Said]:
    """The contract: every check on every case; of its verdicts the first that fails, or else the first."""
    cases = list(target.cases(effort))
    scenes = [Scene(case, effort) for case in cases]
    for number, check in enumerate(CHECKS):
        found = list[Verdict]()
        for place, scene in enumerate(scenes):
            yield Step(f"contract: {check.title}", (number + place / len(scenes)) / len(CHECKS))
            found.append(check(scene))
            if found[-1].outcome == "fail":
                break
        chosen = found[-1] if found[-1].outcome == "fail" else found[0]
        where = scenes[len(found) - 1].title if chosen.outcome == "fail" else ", ".join(each.title for each in scenes)
        says = f"{chosen.says} ({where})" if chosen.outcome == "fail" and len(scenes) > 1 else chosen.says
        yield replace(chosen, says=says, evidence={**chosen.evidence, "problems": where})


def find_stages(named: Sequence[str] = ()) -> list[Stage]:
    """The stages with these names, or all of them."""
    for name in named:
        if name not in MODULES:
            raise BadInput(f"there is no stage {name!r:.80}; there are {', '.join(MODULES)}")
    return [_stage(name) for name in MODULES if not named or name in named]


def _stage(name: str) -> Stage:
    place, says = MODULES[name]
    module, function = place.split(".")
    found: Judge = getattr(import_module(f"parley.launch.testkit.{module}"), function)
    return Stage(name, says, found, waits=name == "processes")


def run_stages(
    target: Target, effort: Effort, stages: Sequence[Stage], show: Callable[[Stage, Said], None] | None = None
) -> Report:
    """Every stage in its order; `show` hears what they say. Those that only wait begin with the first."""
    began, verdicts = time.perf_counter(), list[Verdict]()
    ahead = {stage.name: Ahead(stage, target, effort) for stage in stages[1:] if stage.waits}
    try:
        # The processes of other stages need the other cores.
        with one_thread():
            for stage in stages:
                for said in ahead[stage.name].said() if stage.name in ahead else stage.run(target, effort):
                    if isinstance(said, Verdict):
                        verdicts.append(said)
                    if show is not None:
                        show(stage, said)
    finally:
        for each in ahead.values():
            each.stop()
    seconds = time.perf_counter() - began
    return Report(target=target.name, effort=effort, version=release(), verdicts=tuple(verdicts), seconds=seconds)


class Ahead:
    """A stage that runs in a thread while others have their turn."""

    def __init__(self, stage: Stage, target: Target, effort: Effort) -> None:
        self._queue: SimpleQueue[Said | BaseException | None] = SimpleQueue()
        self._stopped = Event()
        self._thread = Thread(target=self._run, args=(stage, target, effort), name=f"stage {stage.name}")
        self._thread.start()

    def _run(self, stage: Stage, target: Target, effort: Effort) -> None:
        words = stage.run(target, effort)
        try:
            # Closed whatever happens, so that it lets go of what it holds.
            with closing(words):  # type: ignore[type-var]
                for said in words:
                    self._queue.put(said)
                    if self._stopped.is_set():
                        break
        except (ParleyError, OSError, RuntimeError) as error:
            self._queue.put(error)
        finally:
            self._queue.put(None)

    def said(self) -> Iterator[Said]:
        """What it has said so far, and then what it says."""
        while (said := self._queue.get()) is not None:
            if isinstance(said, BaseException):
                raise said
            yield said

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
