"""Kendall's tau and the AUC of whole columns, against every pair counted one by one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.launch import ranks

MOST = {"max_size": 150, "min_size": 2}
PAIRS = st.lists(st.tuples(st.integers(0, 20), st.integers(-9, 9)), **MOST)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(pairs=PAIRS, block=st.integers(1, 160))
def test_every_pair_counts(pairs: list[tuple[int, int]], block: int) -> None:
    first, second = (np.array(column) / 3 for column in zip(*pairs, strict=True))
    signs = [np.sign(column[:, None] - column) for column in (first, second)]
    agreement, untied = (signs[0] * signs[1]).sum(), [np.count_nonzero(each) for each in signs]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranks, "BLOCK_ROWS", block)
        tau_a, tau_b = ranks.taus([first, second])
    assert tau_a == pytest.approx(agreement / len(pairs) / (len(pairs) - 1), abs=1e-12)
    assert tau_b == pytest.approx(agreement / np.sqrt(float(untied[0]) * untied[1]) if all(untied) else 0, abs=1e-12)
    positive = second > 0
    above = (1 + signs[0][positive][:, ~positive]) / 2
    assert ranks.auc(first, positive) == (pytest.approx(above.mean()) if above.size else None)


def test_a_column_of_numbers_is_read_without_pandas(tmp_path: Path) -> None:
    """Pandas takes 50 MiB, and Arrow loads it wherever it finds it."""
    (tmp_path / "numbers.csv").write_text("a,b\n1,2.5\n3,4\n5,0\n")
    told = 'columns="a,b", levels=(2, 2), ranges={"a": (0, 9), "b": (0, 9)}'
    code = f'import sys, parley; parley.problem("numbers.csv", "kendall", {told}); print("pandas" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
