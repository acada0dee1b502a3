"""Tests at one level for a whole family of them, and the p-values they need."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.randomizer import Floats, Integers

ALPHA = 1e-6
LISTED = 10
NOTHING_TO_TEST = "not tested: there is too little on record for any test"


@dataclass(frozen=True, kw_only=True)
class Test:
    what: str
    count: int
    statistic: float
    p_value: float


@dataclass
class Family:
    """Tests that share one level: each is held to its part of alpha (Bonferroni)."""

    tests: list[Test] = field(default_factory=list)

    def add(self, what: str, count: int, statistic: float, p_value: float) -> None:
        p_value = min(1.0, max(0.0, float(p_value)))
        self.tests.append(Test(what=what, count=count, statistic=float(statistic), p_value=p_value))

    def judge(self, meaning: str, **evidence: Any) -> Verdict:
        """Fail where a test's p-value is below its part of alpha. Where there was no test there is no pass."""
        worst = sorted(self.tests, key=lambda each: each.p_value)
        threshold = ALPHA / max(1, len(self.tests))
        evidence = {
            "tests": len(self.tests),
            "p_value": worst[0].p_value if worst else 1.0,
            "alpha": ALPHA,
            "smallest": [vars(each) for each in worst[:LISTED]],
            **evidence,
        }
        if not worst:
            return unknown(NOTHING_TO_TEST, **evidence)
        first = worst[0]
        if first.p_value < threshold:
            numbers = f"n = {first.count}, statistic {first.statistic:.6g}, p-value {first.p_value:.3g}"
            return failed(f"{first.what}: {meaning} ({numbers}, threshold {threshold:.3g})", **evidence)
        return passed(**evidence)


def mean_p_value(values: Floats, mean: float, width: float) -> tuple[float, float]:
    """How far the mean of independent values in an interval of this width is off, and its p-value, for any n.

    The empirical Bernstein inequality (Maurer and Pontil 2009, Theorem 4) solved for its level: no normal
    approximation, so that a few rare values do not accuse anybody.
    """
    count = len(values)
    off = abs(float(values.mean()) - mean)
    spread = math.sqrt(2.0 * float(values.var(ddof=1)) / count)
    span = 7.0 * width / (3.0 * (count - 1))
    root = (math.sqrt(spread**2 + 4.0 * span * off) - spread) / (2.0 * span)
    return off, 4.0 * math.exp(-(root**2))


def uniform_p_value(places: Floats) -> tuple[float, float]:
    """The Kolmogorov-Smirnov distance of values in [0, 1] from the uniform law, and its p-value.

    Twice the exact one-sided probability: it counts twice what is too far off on both sides, which takes the fourth
    power of a small p-value. (`scipy.stats` has the rest, but takes as long to load as a short audit.)
    """
    ordered, count = np.sort(np.clip(places, 0.0, 1.0)), len(places)
    steps = np.arange(count + 1) / count
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    return distance, min(1.0, 2.0 * float(scipy.special.smirnov(count, distance)))


def average_ranks(values: Floats | Integers) -> Floats:
    """1 for the smallest; equal values share the mean of their ranks."""
    _, place, many = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(many) - (many - 1) / 2)[place])
