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
        assert figures["bare_replies_a_second"] > 0
        assert figures["board_replies_a_second"] > 0


def test_schedules() -> None:
    """A short search prints its table and finds nothing."""
    arguments = [sys.executable, "-m", "benchmarks.schedules", "--schedules", "20"]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=200, check=True)
    assert "| schedules | 20 |" in done.stdout
    assert "| violations | 0 |" in done.stdout
