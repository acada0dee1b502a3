"""The benchmark of messages runs, and every reply it sends is on record (it checks so itself)."""

import json
import os
import subprocess
import sys

from tests.launch.conftest import ROOT


def test_messages() -> None:
    small = ("--users", "300", "--single", "60", "--processes", "2", "--json")
    done = subprocess.run(
        [sys.executable, "benchmarks/messages.py", *small],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["columns"]["frames"], found["single"]["frames"]) == (6, 180)
    assert found["columns"]["bytes_a_reply"] < found["single"]["bytes_a_reply"]
    for figures in found.values():
        assert figures["bare_frames_a_second"] > 0
        assert figures["board_replies_a_second"] > 0


def test_schedules() -> None:
    """A short search prints its table and finds nothing."""
    arguments = [sys.executable, "-m", "benchmarks.schedules", "--schedules", "20"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=200, check=True)
    assert "| schedules | 20 |" in done.stdout
    assert "| violations | 0 |" in done.stdout


def test_users() -> None:
    """A small run, its bare loops, which must count the same replies (it checks so itself), and its audit."""
    arguments = [sys.executable, "-m", "benchmarks.users", "--users", "3000", "--json"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    assert found["users"] == 3000
    assert found["bytes_a_reply"] < 10
    stages = {name: seconds for name, seconds in found["seconds"].items() if name != "whole"}
    assert list(stages) == ["start", "data", "protocol", "processes", "rounds", "answer", "report"]
    assert abs(sum(stages.values()) - found["seconds"]["whole"]) < 1e-6
    assert min(found["bare_seconds"], found["audit_seconds"], found["mebibytes"]["launcher"]) > 0
