"""`parley.testing`: what somebody's own tests import."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.planted import FOLDER
from parley.testing import ProtocolContract, check_protocol
from tests.launch.conftest import ROOT

MEAN = ROOT / "docs" / "examples" / "mean.py"


class TestMean(ProtocolContract):
    target = MEAN


def test_a_report_or_an_error_that_says_what_failed() -> None:
    assert check_protocol(MEAN, stages=("contract", "accuracy")).ok
    with pytest.raises(AssertionError, match="contract, budget: its rounds take"):
        check_protocol(FOLDER / "double_budget.py", stages=("contract",))


def test_a_class_in_somebodys_own_tests(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from parley.testing import ProtocolContract\n\n\n"
        f"class TestGood(ProtocolContract):\n    target = {str(MEAN)!r}\n\n\n"
        f"class TestBad(ProtocolContract):\n    target = {str(FOLDER / 'shard_dither.py')!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), "--rootdir", str(tmp_path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert "1 failed, 27 passed" in done.stdout, done.stdout
    assert "sends other bytes in round 1" in done.stdout
