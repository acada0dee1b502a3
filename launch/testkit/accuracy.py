"""How good the estimates are: bias, error against its prediction, coverage, each with its standard error.

Every trial plays the protocol's own rounds for every user, with fresh coins and the users in a fresh order. A verdict
fails only beyond what chance explains at alpha = 1e-6.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from parley.emulator.protocol import Estimate
from parley.emulator.randomizer import Floats
from parley.launch.testkit.contract.laws import ALPHA
from parley.launch.testkit.contract.play import CRASHES, play
from parley.launch.testkit.target import Case, Target
from parley.launch.testkit.verdicts import Effort, Said, Step, Verdict, failed, passed, unknown
from parley.protocols.planned import truth_of
from parley.protocols.planning.table import SimulatedPlanning

TRIALS = {"quick": 150, "usual": 400, "thorough": 2000}
SECONDS = {"quick": 4.0, "usual": 20.0, "thorough": 60.0}
LEAST_TRIALS = 60
EPSILONS = {"quick": (1.0,), "usual": (1.0, 4.0), "thorough": (0.5, 1.0, 4.0)}
SIGMAS = float(scipy.stats.norm.isf(ALPHA / 2))
# Of the predicted error. A tenth of it as bias is half a percent of the mean square.
BIAS = 0.1
RATIO = 1.15
COVERAGE = 0.92
# Of the users, and of the predicted error as bias: an estimate may be worse without them, but not about somebody else.
MISSING, MISSING_BIAS = 0.3, 0.5
MISSING_TRIALS = {"quick": 20, "usual": 40, "thorough": 100}


@dataclass(frozen=True)
class Trials:
    """What came out of many runs of one case."""

    case: Case
    truth: float
    estimates: list[Estimate]

    @property
    def errors(self) -> Floats:
        return np.array([each.value - self.truth for each in self.estimates])

    @property
    def predicted(self) -> tuple[float, str]:
        """The predicted RMSE, and who predicts it: a formula, or what the analyst says of its own error."""
        protocol, inputs = self.case.protocol, self.case.inputs()
        planning = getattr(protocol, "planning", None)
        if hasattr(protocol, "predicted_rmse") and not isinstance(planning, SimulatedPlanning):
            histogram = np.bincount(inputs, minlength=protocol.inputs) / len(inputs)
            return float(protocol.predicted_rmse(histogram)), "its formula"
        said = [each.predicted_rmse for each in self.estimates]
        return math.sqrt(float(np.mean(np.square(said)))), "its analyst"


def judge(target: Target, effort: Effort) -> Iterator[Said]:
    """Three verdicts: the worst of all cases for each."""
    found: dict[str, list[Verdict]] = {}
    problem = target.problems[-1 if effort == "thorough" else 0]
    epsilons = EPSILONS[effort][: 1 if "epsilon" in problem else None]
    for number, epsilon in enumerate(epsilons):
        for said in judge_case(target.case(problem, epsilon), effort):
            if isinstance(said, Step):
                yield Step(said.text, (number + said.share) / len(epsilons))
            else:
                found.setdefault(said.check, []).append(said)
    for listed in found.values():
        yield max(listed, key=lambda each: (each.outcome == "fail", each.evidence.get("severity", 0.0)))


def judge_case(case: Case, effort: Effort) -> Iterator[Said]:
    """Bias, error against prediction, coverage, and bias when users are missing, on one problem."""
    for said in measure(case, effort):
        if isinstance(said, Trials):
            yield from (bias_of(said), ratio_of(said), coverage_of(said), missing_of(case, MISSING_TRIALS[effort]))
        else:
            yield said


def measure(case: Case, effort: Effort) -> Iterator[Trials | Said]:
    """Many runs, as many as there is time for; a verdict instead where there can be none."""
    inputs = case.inputs()
    truth = truth_of(case.protocol, inputs)
    if truth is None:
        yield unknown("accuracy", "it has no method truth(inputs), so there is nothing to compare with")
        return
    estimates, wanted, began = list[Estimate](), TRIALS[effort], time.perf_counter()
    for trial in range(wanted):
        generator = np.random.default_rng([9, trial])
        try:
            estimates.append(play(case.protocol, generator.permutation(inputs), generator)[1])
        except CRASHES as error:
            yield failed("accuracy", f"run {trial} with {len(inputs)} users gives no estimate: {error!s:.200}")
            return
        yield Step(f"accuracy at epsilon {case.epsilon:g}", trial / wanted)
        if time.perf_counter() - began > SECONDS[effort] and trial + 1 >= LEAST_TRIALS:
            break
    yield Trials(case, truth, estimates)


def bias_of(trials: Trials) -> Verdict:
    """The mean error, against what chance and a tenth of the predicted error explain."""
    errors, (predicted, _), many = trials.errors, trials.predicted, len(trials.estimates)
    mean, error = float(errors.mean()), float(errors.std(ddof=1)) / math.sqrt(many)
    allowed = float(getattr(trials.case.protocol, "test_bias", BIAS)) * predicted
    says = f"{mean:+.3g} ± {error:.2g} ({mean / predicted:+.2f} of the predicted error), {many} runs"
    excess = (abs(mean) - allowed) / (error or 1e-300)
    evidence = {"bias": mean, "standard_error": error, "allowed": allowed, "severity": excess, "trials": many}
    if not excess <= SIGMAS:
        over = f"; {excess:.1f} standard errors above the {allowed:.2g} that is allowed"
        return failed("bias", says + over, **evidence)
    return passed("bias", says, **evidence)


def ratio_of(trials: Trials) -> Verdict:
    """Measured over predicted RMSE."""
    errors, (predicted, who), many = trials.errors, trials.predicted, len(trials.estimates)
    if not predicted > 0:
        return failed("error against prediction", f"the predicted RMSE is {predicted:g}")
    squares = (errors / predicted) ** 2
    ratio = math.sqrt(float(squares.mean()))
    error = float(squares.std(ddof=1)) / math.sqrt(many) / (2 * max(ratio, 1e-300))
    says = f"RMSE is {ratio:.3f} ± {error:.3f} of what {who} predicts, {predicted:.3g}"
    excess = (ratio - RATIO) / (error or 1e-300)
    evidence = {"ratio": ratio, "standard_error": error, "most": RATIO, "predicted_rmse": predicted, "severity": excess}
    if not excess <= SIGMAS:
        return failed("error against prediction", f"{says}; more than {RATIO} beyond chance", **evidence)
    return passed("error against prediction", says, **evidence)


def coverage_of(trials: Trials) -> Verdict:
    """How often the 95% interval holds the truth."""
    many = len(trials.estimates)
    ends = [each.interval95 for each in trials.estimates]
    held = sum(low <= trials.truth <= high for low, high in ends)
    share = held / many
    error = math.sqrt(max(share * (1 - share), 1 / many) / many)
    least = int(scipy.stats.binom.ppf(ALPHA, many, COVERAGE))
    says = f"{share:.1%} ± {error:.1%} of {many} intervals hold the truth"
    evidence = {"coverage": share, "standard_error": error, "held": held, "least": least, "severity": 1 - share}
    if held < least:
        return failed("coverage", f"{says}; fewer than {COVERAGE:.0%} beyond chance", **evidence)
    return passed("coverage", says, **evidence)


def missing_of(case: Case, trials: int) -> Verdict:
    """Some users are lost on the way: the estimate is about those who answered."""
    check, inputs, errors, predicted = "users missing", case.inputs(), list[float](), list[float]()
    for trial in range(trials):
        generator = np.random.default_rng([10, trial])
        there = generator.random(len(inputs)) >= MISSING
        try:
            estimate = play(case.protocol, inputs, generator, there)[1]
        except CRASHES as error:
            return failed(
                check, f"with {MISSING:.0%} of {len(inputs)} users missing it gives no estimate: {error!s:.200}"
            )
        truth = truth_of(case.protocol, inputs[there])
        assert truth is not None
        errors.append(estimate.value - truth)
        predicted.append(estimate.predicted_rmse)
    mean, size = float(np.mean(errors)), float(np.mean(predicted))
    deviation = float(np.std(errors, ddof=1)) / math.sqrt(trials)
    allowed = max(MISSING_BIAS, float(getattr(case.protocol, "test_bias", 0.0))) * size
    excess, chance = (abs(mean) - allowed) / (deviation or 1e-300), float(scipy.stats.t.isf(ALPHA / 2, trials - 1))
    says = f"{mean:+.3g} ± {deviation:.2g} without {MISSING:.0%} of the users, {trials} runs"
    evidence = {"bias": mean, "standard_error": deviation, "allowed": allowed, "severity": excess, "trials": trials}
    if not excess <= chance:
        return failed(
            check, f"{says}; {excess:.1f} standard errors above the {allowed:.2g} that is allowed", **evidence
        )
    return passed(check, says, **evidence)
