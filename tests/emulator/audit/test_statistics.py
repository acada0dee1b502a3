"""The p-values of an audit are those of scipy.stats, which it does without."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import kstest, rankdata

from parley.emulator.audit.statistics import average_ranks, uniform_p_value


@pytest.mark.parametrize("count", [50, 700, 8192])
@pytest.mark.parametrize("power", [1.0, 1.2, 2.0])
def test_the_distance_from_the_uniform_law_and_its_p_value(count: int, power: float) -> None:
    places = np.random.default_rng(3).random(count) ** power
    expected = kstest(places, "uniform")
    distance, p_value = uniform_p_value(places)
    assert distance == pytest.approx(expected.statistic, rel=1e-12)
    # Never smaller, and the same wherever it could accuse anybody.
    assert p_value >= expected.pvalue * (1 - 1e-9)
    if expected.pvalue < 1e-3:
        assert p_value == pytest.approx(expected.pvalue, rel=1e-6)


def test_equal_values_share_their_ranks() -> None:
    values = np.random.default_rng(4).integers(20, size=100)
    assert np.array_equal(average_ranks(values), rankdata(values))
    assert average_ranks(np.empty(0)).tolist() == []


def test_an_audit_does_not_load_the_distributions() -> None:
    """They take as long to load as a short audit."""
    program = "import parley.launch.commands.audit, sys; print('scipy.stats' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
