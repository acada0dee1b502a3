"""Stragglers are cut at the deadline, the estimate says how many replied, and dropout does not bias it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.dropout import measure
from parley.emulator.audit.report import audit
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Abort, Close
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload
from tests.launch.conftest import Parley
from tests.launch.recovery import recorded

PROBLEM = ("run", "--statistic", "kendall", "--levels", "4x4", "--epsilon", "4", "--users", 300, "--seed", 7)
# Its replies come an hour late: one node in three is cut.
STRAGGLER = """
[[fault]]
kind = "straggler"
nodes = "node-2"
direction = "up"
messages = ["replies"]
seconds = 3600
"""
ALPHA = 1e-6


@pytest.mark.parametrize(("protocol", "rounds"), [("one-round", 1), ("two-round", 2)])
def test_stragglers_are_cut(parley: Parley, protocol: str, rounds: int) -> None:
    Path("slow.toml").write_text(STRAGGLER)
    common = (*PROBLEM, "--protocol", protocol, "--processes", 3, "--json")
    slow = parley(*common, "--conditions", "slow.toml", "--deadline", 3, "--quorum", 0.5, "--out", "slow")
    assert slow.code == 0, slow.err
    assert slow.record["users"] == 300
    assert slow.record["replied"] == 200
    assert f"round {rounds} of {rounds}: 200 replies" in slow.err
    assert "100 users missing" in slow.err
    quick = parley(*common, "--out", "quick")
    assert quick.record["replied"] == 300
    width = [np.subtract(*said.record["interval95"][::-1]) for said in (quick, slow)]
    assert width[1] > width[0]
    closes = [each for each in recorded(Path("slow")) if isinstance(each, Close)]
    assert [each.missing for each in closes] == [100] * rounds
    assert audit(Path("slow/transcript.parley"), build).ok


def test_below_the_quorum_the_run_fails_with_a_whole_record(parley: Parley) -> None:
    Path("slow.toml").write_text(STRAGGLER)
    common = (*PROBLEM, "--protocol", "one-round", "--processes", 3, "--conditions", "slow.toml", "--quiet")
    said = parley(*common, "--deadline", 2, "--quorum", 0.7, "--out", "run")
    assert said.code == 3
    assert "round 1: 200 of 300 users answered, below the quorum" in said.err
    reader = TranscriptReader(Path("run/transcript.parley"))
    assert isinstance([record.message for record in reader][-1], Abort)
    assert reader.closing is not None
    assert reader.closing.outcome == "failed"
    assert not Path("run/result.json").exists()


@pytest.mark.parametrize("protocol", ["three-round", "two-round-tuned", "one-round"])
def test_dropout_does_not_bias(protocol: str) -> None:
    """The t-test of mean error zero at ALPHA; benchmarks/dropout.py measures every protocol over 200 runs."""
    workload, runs = make_workload("kendall", "3x3", None), 40
    spoken = design(protocol, workload, epsilon=4.0, users=1000)
    found = measure(spoken, workload, users=1000, runs=runs, silent=0.3)
    threshold = t.isf(ALPHA / 2, runs - 1)
    assert abs(found["z"]) <= threshold, (runs, found["z"], threshold)
    assert found["wider"] > 1
