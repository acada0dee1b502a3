"""The test kit for pytest: the same checks as `parley test`, as a function and as a class to inherit."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from parley.launch.testkit import accuracy
from parley.launch.testkit.contract import behaviour, exact, nodes, restart
from parley.launch.testkit.contract.checks import Check
from parley.launch.testkit.contract.scene import Scene
from parley.launch.testkit.show import last_line
from parley.launch.testkit.stages import find_stages, run_stages
from parley.launch.testkit.target import Case, Target, find_target
from parley.launch.testkit.verdicts import Effort, Report, Verdict


def check_protocol(
    target: str | Path, *, protocol: str | None = None, effort: Effort = "quick", stages: Sequence[str] = ()
) -> Report:
    """Test a protocol as `parley test` does; AssertionError with what was found if a check fails."""
    report = run_stages(find_target(str(target), protocol), effort, find_stages(stages))
    if not report.ok:
        found = "".join(f"\n  {each.stage}, {each.check}: {each.says}" for each in report.failures)
        raise AssertionError(f"{last_line(report)}{found}")
    return report


class ProtocolContract:
    """What every protocol owes, one test for each check.

        class TestMyMean(ProtocolContract):
            target = "my_mean.py"

    `target` is a file or a name; a class that makes its own `case` needs none.
    """

    target: ClassVar[str | Path] = ""
    effort: ClassVar[Effort] = "quick"

    @cached_property
    def found(self) -> Target:
        return find_target(str(self.target))

    @cached_property
    def case(self) -> Case:
        """The protocol on the problem that it is tested on."""
        return self.found.first

    @cached_property
    def scene(self) -> Scene:
        return _scene_of(type(self), self.case, self.effort)

    def confirm(self, check: Check) -> None:
        verdict = check(self.scene)
        assert verdict.outcome != "fail", describe(verdict)

    def test_budget(self) -> None:
        self.confirm(exact.check_budget)

    def test_parameters(self) -> None:
        self.confirm(exact.check_parameters)

    def test_likelihoods_sum_to_one(self) -> None:
        self.confirm(exact.check_likelihoods)

    def test_exact_loss(self) -> None:
        self.confirm(exact.check_loss)

    def test_sampler_follows_likelihood(self) -> None:
        self.confirm(exact.check_sampler)

    def test_crafted_replies(self) -> None:
        self.confirm(exact.check_crafted)

    def test_coins_serve_one_purpose(self) -> None:
        self.confirm(behaviour.check_coins)

    def test_a_restart_changes_nothing(self) -> None:
        self.confirm(restart.check_restart)

    def test_sharding_changes_nothing(self) -> None:
        self.confirm(behaviour.check_sharding)

    def test_order_changes_nothing(self) -> None:
        self.confirm(behaviour.check_tallies)

    def test_hostile_broadcasts(self) -> None:
        self.confirm(behaviour.check_hostile)

    def test_same_for_every_input(self) -> None:
        self.confirm(behaviour.check_visible)

    def test_nodes_look_alike(self) -> None:
        self.confirm(nodes.check_nodes)

    def test_accuracy(self) -> None:
        for said in accuracy.judge_case(self.case, self.effort):
            if isinstance(said, Verdict):
                assert said.outcome != "fail", describe(said)


_SCENES: dict[type, Scene] = {}


def _scene_of(kind: type, case: Case, effort: Effort) -> Scene:
    """One scene per class: pytest makes a new object for every test, and broadcasts are looked for once."""
    if kind not in _SCENES:
        _SCENES.clear()
        _SCENES[kind] = Scene(case, effort)
    return _SCENES[kind]


def describe(verdict: Verdict) -> str:
    """A verdict with its evidence, for a failed test."""
    return f"{verdict.check}: {verdict.says}\n{dict(verdict.evidence)}"
