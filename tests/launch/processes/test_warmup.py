"""The warm-up plays the run to its end, and leaves the process as fit to be forked as before."""

import subprocess
import sys
from pathlib import Path

import pytest

from parley.launch.processes.warmup import broadcasts_of, take_part
from parley.nodes.analyst import write_plan
from parley.nodes.common import GOOD
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall
from tests.launch.conftest import ROOT

PROTOCOLS = ("one-round", "one-round-tuned", "two-round", "two-round-tuned", "three-round")


@pytest.mark.parametrize("name", [*PROTOCOLS, "frequency-oue", "linear-queries"])
def test_everything_is_warmed_up_to_the_end(name: str) -> None:
    protocol = design(name, Kendall(levels=(4, 4)), epsilon=4.0, users=100)
    frames = broadcasts_of(protocol)
    assert len(frames) == 2 + len(protocol.rounds)
    assert take_part(protocol, frames) == GOOD


def test_no_thread_no_child_and_no_file_is_left(tmp_path: Path) -> None:
    protocol = design("three-round", Kendall(levels=(4, 4)), epsilon=4.0, users=100)
    plan = tmp_path / "plan.parley"
    write_plan(plan, protocol)
    program = f"""
import os
from pathlib import Path
from parley.launch.processes.warmup import warm_up
from parley.nodes.analyst import read_plan
protocol = read_plan(Path({str(plan)!r})).protocol
held = lambda: (len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
before = held()
warm_up(protocol)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print(before == held() and held()[0] == 1, os.listdir({str(tmp_path)!r}), flush=True)
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"TMPDIR": str(tmp_path), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split(maxsplit=1) == ["True", "['plan.parley']\n"], done.stderr
