"""The comparison with other packages: its tables, how it runs programs, and our own side; nothing is installed."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchmarks.others import factors, histograms, sums
from benchmarks.others.__main__ import shown
from benchmarks.others.environment import Environment, environment, step
from benchmarks.others.rows import PROGRAMS, Part
from benchmarks.others.watched import Finished, Unavailable, descendants, run
from benchmarks.page import PAGE
from parley.protocols.factorization.fixed_point import fixed_point

RECORD = '{"rounds": 0.5, "messages": 18, "total": 6.0}'
# Leaves a grandchild in a session of its own, tells its number, and waits.
LEAVING = """
import subprocess, sys, time
left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print('{"left": %d}' % left.pid, flush=True)
"""


def finished(output: str, mebibytes: float = 0.0) -> Finished:
    return Finished(seconds=2.0, output=output, mebibytes=mebibytes, most_processes=4)


def test_a_program_that_ends_takes_everything_with_it() -> None:
    before = descendants()
    done = run((sys.executable, "-c", LEAVING))
    with pytest.raises(ProcessLookupError):
        os.kill(done.record["left"], signal.SIGCONT)
    assert descendants() == before


def test_a_program_that_does_not_end_is_ended() -> None:
    before = descendants()
    with pytest.raises(Unavailable, match="time limit"):
        run((sys.executable, "-c", LEAVING + "time.sleep(600)"), limit=1.0, watch=True)
    assert descendants() == before


def test_memory_is_that_of_all_its_processes() -> None:
    program = "import os, time\nheld = bytearray(os.urandom(2**20)) * 64\nos.fork()\ntime.sleep(1.5)"
    done = run((sys.executable, "-c", program), watch=True)
    # Both have the same pages, which are counted once.
    assert done.most_processes == 2
    assert 64 < done.mebibytes < 64 * 1.9


def test_a_failure_is_told_by_its_last_words() -> None:
    with pytest.raises(Unavailable, match="failed: ValueError: no luck"):
        run((sys.executable, "-c", "raise ValueError('no luck')"))
    with pytest.raises(Unavailable, match="no figures"):
        _ = finished("nothing of interest\n").record


def test_sums_are_read_and_checked() -> None:
    output = f"some warning\n{RECORD}\n{{ more talk\n"
    found = sums.finished("someone", 3, finished(output), finished("", mebibytes=12.0))
    assert found.row() == ("someone", 3, 4, 2.0, 0.5, 18, 12.0)
    with pytest.raises(Unavailable, match="came out as 6"):
        sums.finished("someone", 4, finished(RECORD), finished(RECORD))


def test_a_row_without_figures_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    part = Part(heads=sums.HEADS, kept=tmp_path / "file")

    def broken(where: Environment) -> list[sums.Sums]:
        raise AssertionError("nothing was installed")

    part.add_theirs("none", ("nobody==0",), broken, {("Nobody", 3): ()}, "nobody")
    ((who, parties, reason, *empty),) = part.rows
    assert (who, parties, set(empty)) == ("Nobody", 3, {""})
    assert str(reason).startswith("not installed: ")
    text = shown("flower", part, 0.5)
    assert "| Nobody | 3 | not installed" in text
    assert "--only flower --write`" in text


def test_errors_of_pip_are_told_and_not_its_warnings() -> None:
    said = "WARNING: be careful\nERROR: nobody has nobody==0\nWARNING: there is a newer pip"
    with pytest.raises(Unavailable, match=r"^not installed: nobody has nobody==0$"):
        step(sys.executable, "-c", f"import sys; sys.exit({said!r})")


def test_an_environment_that_is_kept_is_not_made_again(tmp_path: Path) -> None:
    made = tmp_path / "some"
    made.mkdir()
    (made / "pins.txt").write_text("one==1\ntwo==2")
    began = time.time_ns()
    with environment("some", ("one==1", "two==2"), tmp_path) as where:
        assert where.python == made / "bin" / "python"
        assert where.versions() == {}
        assert "PYTHONPATH" not in where.variables()
    assert made.stat().st_mtime_ns < began


def test_our_side_of_the_sums() -> None:
    (found,) = sums.parley(4, None, "2x2")
    assert (found.who, found.parties, found.messages) == ("Parley, a process for every user", 4, 6 * 4)
    # The launcher, what forks for it, board, analyst and users; some may be gone when one looks.
    assert found.processes >= 4
    assert found.mebibytes > 30
    assert 0 < found.rounds < found.seconds


def test_our_side_of_the_histograms() -> None:
    users = histograms.draw(2000, levels=(3, 3))
    exact = users.workload.histogram(users.inputs)
    # Without noise the plug-in is the statistic.
    assert np.abs(users.plugged_in(np.array([exact, exact]))).max() < 1e-12
    (found,) = histograms.ours(users, "auto", trials=3)
    assert (len(found.errors), found.row()[3]) == (3, 3)
    (whole,) = histograms.as_users_do(users)
    assert whole.mechanism == found.mechanism
    assert np.abs(whole.errors).max() < 1


def test_factors_of_others_are_certified_afresh() -> None:
    signs = np.sign(np.random.default_rng(3).standard_normal((12, 12)))
    best = fixed_point(signs, 1e-6)
    # With the factor of the best factorization the norm is the best one, up to what rotates it.
    left, right = best.left.dense(), best.right.dense()
    orthogonal, _ = np.linalg.qr(right)
    strategy = orthogonal.T @ right
    np.testing.assert_allclose(left.T @ right, signs, atol=1e-9)
    assert factors.norm(signs, strategy, "max") == pytest.approx(best.upper, rel=1e-4)
    bound = factors.mean_row_bound(signs)
    assert bound <= factors.norm(signs, strategy, "mean") <= factors.norm(signs, strategy, "max")
    assert bound <= best.lower
    good, bad = (
        factors.Reached(size=12, who="x", objective="max", seconds=1.0, lower=1.0, upper=upper).row()[-1]
        for upper in (1.0005, 1.02)
    )
    assert (good, bad) == ("5.0e-04", "2.0e-02, not reached")


def test_fixed_point_in_a_process_of_its_own() -> None:
    (found,) = factors.ours(16, "fixed-point")
    assert found.lower <= found.upper <= found.lower * 1.001


def test_programs_and_page_belong_together() -> None:
    page = PAGE.read_text()
    for name in ("flower", "mpyc", "histograms", "factors-one-core"):
        assert f"<!-- others-{name} -->" in page
    for path in PROGRAMS.glob("[!_]*.py"):
        compile(path.read_text(), str(path), "exec")
