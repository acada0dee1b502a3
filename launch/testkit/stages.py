"""The stages of `parley test`, in their order, and what they say about one protocol."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module

from parley.emulator.errors import BadInput
from parley.launch.settings import release
from parley.launch.testkit import behaviour, contract
from parley.launch.testkit.play import CRASHES
from parley.launch.testkit.scene import Scene
from parley.launch.testkit.target import Case, Target
from parley.launch.testkit.verdicts import Effort, Judge, Report, Said, Stage, Step, Verdict, failed

Check = Callable[[Scene], Verdict]
# In this order: what is cheap and exact first.
CHECKS: tuple[Check, ...] = (
    contract.check_budget,
    contract.check_parameters,
    contract.check_likelihoods,
    contract.check_loss,
    contract.check_sampler,
    behaviour.check_coins,
    behaviour.check_sharding,
    behaviour.check_tallies,
    behaviour.check_hostile,
    behaviour.check_visible,
)
# Name -> module of this package with a function `judge`, and what it looks for.
MODULES = {
    "contract": ("stages", "what every protocol owes its users, exactly where that is possible"),
    "accuracy": ("accuracy", "bias, error against prediction, coverage"),
    "processes": ("processes", "real processes under every ready-made condition, with kills"),
}


def judge(target: Target, effort: Effort) -> Iterator[Said]:
    """The contract: every check on every case; of its verdicts the first that fails, or else the first."""
    cases = list(target.cases(effort))
    scenes = [Scene(case, effort) for case in cases]
    for number, check in enumerate(CHECKS):
        found = list[Verdict]()
        for place, scene in enumerate(scenes):
            yield Step(f"contract: {title_of(check)}", (number + place / len(scenes)) / len(CHECKS))
            found.append(judged(check, scene))
            if found[-1].outcome == "fail":
                break
        chosen = found[-1] if found[-1].outcome == "fail" else found[0]
        where = scenes[len(found) - 1].title if chosen.outcome == "fail" else ", ".join(each.title for each in scenes)
        says = f"{chosen.says} ({where})" if chosen.outcome == "fail" and len(scenes) > 1 else chosen.says
        yield replace(chosen, says=says, evidence={**chosen.evidence, "problems": where})


def judged(check: Check, scene: Scene) -> Verdict:
    """A verdict even where the protocol's own code breaks down: that is one, too."""
    try:
        return check(scene)
    except CRASHES as error:
        return failed(title_of(check), f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


def title_of(check: Check) -> str:
    """What a check is called where it cannot say so itself."""
    return check.__name__.removeprefix("check_").replace("_", " ")


def find_stages(named: Sequence[str] = ()) -> list[Stage]:
    """The stages with these names, or all of them."""
    for name in named:
        if name not in MODULES:
            raise BadInput(f"there is no stage {name!r:.80}; there are {', '.join(MODULES)}")
    return [_stage(name) for name in MODULES if not named or name in named]


def _stage(name: str) -> Stage:
    module, says = MODULES[name]
    found: Judge = import_module(f"parley.launch.testkit.{module}").judge
    return Stage(name, says, found)


def run_stages(
    target: Target, effort: Effort, stages: Sequence[Stage], show: Callable[[Stage, Said], None] | None = None
) -> Report:
    """Every stage one after the other; `show` hears what they say as they say it."""
    began, verdicts = time.perf_counter(), list[Verdict]()
    for stage in stages:
        for said in stage.run(target, effort):
            if isinstance(said, Verdict):
                verdicts.append(said)
            if show is not None:
                show(stage, said)
    seconds = time.perf_counter() - began
    return Report(target=target.name, effort=effort, version=release(), verdicts=tuple(verdicts), seconds=seconds)


def cases_of(target: Target, effort: Effort) -> list[Case]:
    """The problems that a protocol is tested on."""
    return list(target.cases(effort))
