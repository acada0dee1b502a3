"""Test a protocol of your own from pytest: `pip install 'parley-ldp[test-kit]'`.

    from parley.testing import ProtocolContract, check_protocol

    class TestMyMean(ProtocolContract):
        target = "my_mean.py"

    def test_everything() -> None:
        check_protocol("my_mean.py", effort="quick")

The class has one test for each check of the contract, and one for accuracy. `check_protocol` runs every stage of
`parley test`, real processes among them, and gives its report; `stages=("contract",)` chooses. `RandomizerContract` is
the suite for a randomizer of your own.
"""

from parley.launch.testkit.contract.randomizers import RandomizerContract
from parley.launch.testkit.suite import ProtocolContract, check_protocol
from parley.launch.testkit.verdicts import Effort, Report, Verdict

__all__ = ["Effort", "ProtocolContract", "RandomizerContract", "Report", "Verdict", "check_protocol"]
