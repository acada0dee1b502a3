"""The neighbouring-input experiment stays below every claim that holds and rises above each that does not."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from parley.emulator.audit.empirical import check_empirical, last_digit, lower_bound
from parley.emulator.audit.verdict import Verdict
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.protocols.registry import design, names
from parley.protocols.workloads.choice import make_workload
from tests.emulator.audit.broken import (
    EPSILON,
    HONEST,
    FloatLaplace,
    Forgetful,
    Mean,
    builder,
    half_noise,
    laplace,
    no_noise,
)
from tests.emulator.audit.recordings import audited, heard, inputs_for, record

EXAMPLES = (("kendall", "3x3"), ("gini-diversity", "4"), ("gini-mean-difference", "4"), ("auc", "4"))
USERS = 60


def example(name: str) -> Protocol:
    """A registered protocol on the first example it takes."""
    for statistic, levels in EXAMPLES:
        try:
            return design(name, make_workload(statistic, levels, None), epsilon=EPSILON, users=USERS)
        except BadInput:
            continue
    raise AssertionError(f"{name} takes none of the examples")


def experiment(path: Path, protocol: Protocol, trials: int, **options: object) -> Verdict:
    record(path, protocol, inputs_for(protocol, USERS))
    return check_empirical(
        heard(path, builder(protocol)),
        trials,
        key_from_seed(23),
        generator=np.random.default_rng(4),
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", names())
def test_every_registered_protocol_stays_below_its_claim(tmp_path: Path, name: str) -> None:
    verdict = experiment(tmp_path / "t", example(name), 2000)
    assert verdict.verdict == "pass", verdict.reason
    assert 0 <= verdict.evidence["lower_bound"] <= EPSILON


def test_tight_noise_comes_close_to_its_claim(tmp_path: Path) -> None:
    verdict = experiment(tmp_path / "t", Mean(randomizer=HONEST["one-bit"](EPSILON)), 20_000)
    assert 0.8 * EPSILON < verdict.evidence["lower_bound"] <= EPSILON


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("broken", [no_noise, half_noise])
def test_too_little_noise_rises_above_the_claim(tmp_path: Path, name: str, broken: object) -> None:
    protocol = Mean(randomizer=broken(name))  # type: ignore[operator]
    verdict = experiment(tmp_path / "t", protocol, 20_000)
    assert verdict.verdict == "fail"
    assert verdict.evidence["lower_bound"] > EPSILON


def test_fresh_noise_on_resend_rises_above_the_claim(tmp_path: Path) -> None:
    protocol = Mean(randomizer=HONEST["one-bit"](EPSILON))
    assert experiment(tmp_path / "t", protocol, 20_000).verdict == "pass"
    verdict = experiment(tmp_path / "u", protocol, 20_000, kind=Forgetful)
    assert verdict.verdict == "fail"
    assert verdict.evidence["lower_bound"] > EPSILON


def test_float_laplace_rises_above_the_claim(tmp_path: Path) -> None:
    protocol = Mean(randomizer=FloatLaplace(epsilon=EPSILON))
    verdict = experiment(tmp_path / "t", protocol, 20_000)
    assert verdict.verdict == "fail"
    assert "last digit" in verdict.evidence["event"]
    exact = audited(tmp_path / "t", builder=builder(protocol)).verdicts["privacy"]
    assert exact.verdict == "pass", "its density is that of Laplace noise: only its floats tell"


def test_a_noise_scale_too_small_for_the_claim_is_exact_too(tmp_path: Path) -> None:
    protocol = Mean(randomizer=laplace(2 * EPSILON))
    assert experiment(tmp_path / "t", protocol, 20_000).verdict == "fail"
    privacy = audited(tmp_path / "t", builder=builder(protocol)).verdicts["privacy"]
    assert privacy.verdict == "fail"
    assert privacy.evidence["max_loss"] > EPSILON


@pytest.mark.parametrize(("likely", "unlikely"), [(900, 300), (1000, 0), (1000, 1000), (0, 0)])
def test_bounds_are_clopper_and_pearson_s(likely: int, unlikely: int) -> None:
    trials, alpha = 1000, 1e-3
    bound = lower_bound(likely, unlikely, trials, alpha, 0.0)
    if bound == 0.0:
        assert likely <= unlikely
        return
    high = 1.0 if unlikely == trials else None
    # At the bounds the observed counts are just in the tails of alpha/2 each.
    low = np.exp(bound) * (high or _upper(unlikely, trials, alpha))
    assert math.isclose(float(binom.sf(likely - 1, trials, low)), alpha / 2, rel_tol=1e-6)


def _upper(count: int, trials: int, alpha: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if binom.cdf(count, trials, middle) > alpha / 2 else (low, middle)
    return high


def test_the_last_digit_of_a_float() -> None:
    values = np.array([1.0, 1.5, 3.0, -0.125, 1 + 2.0**-52, 2.0**-60, 0.0])
    assert last_digit(values).tolist() == [0, -1, 0, -3, -52, -60, 0]
