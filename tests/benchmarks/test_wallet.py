"""The wallet's benchmark counts what it says it counts."""

from benchmarks.wallet import answered, shown
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall


def test_nobody_answers_fewer_runs_than_plain_summing_allows() -> None:
    protocol = design("frequency-grr", Kendall(levels=(2, 2)), epsilon=0.25, users=50)
    low, median, high = answered(protocol, 1.0, 50, 60)
    assert 4 <= low <= median <= high
    assert median > 4
    assert answered(protocol, 1.0, 50, 3) == [3.0, 3.0, 3.0]


def test_those_who_still_answer_at_the_end_are_not_given_a_number() -> None:
    row = {"cap": 1.0, "epsilon": 0.25, "k": 4, "protocol": "p", "sum": 4, "tenth": 5, "median": 9, "ninetieth": 60}
    assert "| 1 | 0.25 | 4 | `p` | 4 | 5 | 9 | 60 or more |" in shown([row], 50, 60)
