"""h'Jh = 1, so a constant added to a kernel costs nothing: neither in the plan nor in its bounds."""

import numpy as np
import pytest

from parley.protocols import registry
from parley.protocols.planning import plan
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kernel import Kernel


def distances(levels: int, raised: float = 0.0) -> Kernel:
    places = np.arange(levels) / (levels - 1)
    return Kernel(np.abs(places[:, None] - places) + raised)


@pytest.mark.parametrize("name", ["one-round", "one-round-tuned", "three-round"])
@pytest.mark.parametrize("levels", [8, 300])
def test_a_raised_kernel_is_as_easy_as_the_kernel(name: str, levels: int) -> None:
    plain, raised = (
        registry.design(name, distances(levels, by), epsilon=1.0, users=100_000).predicted_rmse() for by in (0.0, 10.0)
    )
    assert raised == pytest.approx(plain, rel=0.05)


def test_one_more_level_does_not_change_the_error() -> None:
    """Kernels beyond a certain size once lost their shift."""
    fewer, more = (
        registry.design("one-round", distances(levels), epsilon=1.0, users=100_000).predicted_rmse()
        for levels in (256, 257)
    )
    assert more == pytest.approx(fewer, rel=0.02)


def test_bounds_do_not_see_what_is_free() -> None:
    plain, raised = (plan.bounds(distances(8, by), 1.0, 10_000) for by in (0.0, 1000.0))
    assert plain is not None
    assert raised is not None
    assert raised.gamma_upper == pytest.approx(plain.gamma_upper, rel=0.02)
    assert raised.lower_bound == pytest.approx(plain.lower_bound, rel=0.05)
    # A bound on the worst data is compared with the worst data.
    achieved = min(option.worst_rmse for option in plan.rank_protocols(distances(8, 1000.0), 1.0, 10_000))
    assert raised.lower_bound < achieved


def test_a_constant_kernel_is_known() -> None:
    limits = plan.bounds(Kernel(np.full((4, 4), 3.0)), 1.0, 1000)
    assert limits is not None
    assert (limits.gamma_upper, limits.lower_bound, limits.floor) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("name", "most"), [("one-round", 0.035), ("one-round-tuned", 0.025)])
def test_diversity_of_two_categories_is_not_shifted_too_far(name: str, most: float) -> None:
    """With the shift 1 instead of 1 - 1/k these were 0.113 and 0.079."""
    protocol = registry.design(name, GiniDiversity(levels=2), epsilon=1.0, users=2000)
    assert protocol.predicted_rmse(np.array([0.3, 0.7])) <= most
