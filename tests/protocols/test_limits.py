"""Sums of replies are exact whole numbers of 64 bits, or the run is refused before it starts."""

import pytest

from parley.emulator.errors import BadInput
from parley.protocols.limits import check_sums
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall


def test_a_run_whose_sums_could_overflow_is_refused() -> None:
    """A codebook reply adds at most 2^36 to a number: below 2^27 replies nothing exceeds 2^63 - 1."""
    protocol = design("three-round", Kendall(levels=(3, 3)), epsilon=1.0, users=2**27 - 1)
    most = max(max(send.randomizer.reach or (0,)) for step in protocol.rounds for send in step.usual.values())
    assert most == 2**36
    check_sums(protocol, 2**27 - 1)
    with pytest.raises(BadInput, match="three-round adds up at most 134217727 replies exactly, not 134217728"):
        check_sums(protocol, 2**27)


def test_protocols_that_count_replies_take_a_thousand_million() -> None:
    check_sums(design("two-round-tuned", Kendall(levels=(3, 3)), epsilon=1.0, users=10**9), 10**9)
