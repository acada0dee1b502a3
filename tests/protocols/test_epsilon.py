"""One sentence says which epsilon is allowed, whichever protocol or command refuses it."""

import pytest

from parley.emulator.errors import BadInput
from parley.launch.problem import ProblemFlags, make_problem
from parley.protocols import registry
from parley.protocols.randomizers.exact import LARGEST_EPSILON, LEAST_EPSILON
from parley.protocols.randomizers.scalars.grid_laplace import LEAST_EPSILON as LEAST_OF_LAPLACE
from parley.protocols.workloads.kendall import Kendall

WORKLOAD = Kendall(levels=(3, 3))
ALLOWED = f"give a number from {LEAST_EPSILON:.3g} to {LARGEST_EPSILON:g}"
NAMES = registry.names()
# Two baselines are not for Kendall's tau, one has narrower limits.
OTHERS = ("quantise", "hierarchical", "frequency-oue")


@pytest.mark.parametrize("epsilon", [LARGEST_EPSILON * 1.01, 0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", NAMES)
def test_every_protocol_names_the_same_limits(name: str, epsilon: float) -> None:
    said = f"epsilon is {epsilon:g}; {ALLOWED}"
    with pytest.raises(BadInput) as refused:
        registry.design(name, WORKLOAD, epsilon=epsilon, users=50)
    assert str(refused.value) == said


@pytest.mark.parametrize("epsilon", [LARGEST_EPSILON * 1.01, 0.0])
def test_commands_name_them_too(epsilon: float) -> None:
    with pytest.raises(BadInput) as refused:
        make_problem(ProblemFlags(statistic="kendall", levels="3x3", users=50, epsilon=epsilon))
    assert str(refused.value) == f"epsilon is {epsilon:g}; {ALLOWED}"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERS])
def test_the_largest_epsilon_can_be_used(name: str) -> None:
    assert registry.design(name, WORKLOAD, epsilon=LARGEST_EPSILON, users=50).claim.epsilon == LARGEST_EPSILON


def test_a_randomizer_with_narrower_limits_says_which_one_it_is() -> None:
    with pytest.raises(BadInput, match="epsilon of unary encoding is 17; give a number from 9"):
        registry.design("frequency-oue", WORKLOAD, epsilon=17.0, users=50)
    with pytest.raises(BadInput, match="epsilon of a Laplace reply is"):
        registry.design("three-round", WORKLOAD, epsilon=4 * 0.0002, users=50)
    assert LEAST_OF_LAPLACE > 0.0002
