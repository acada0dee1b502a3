"""Kendall's tau and the AUC of whole columns, against every pair counted one by one."""

import subprocess
import sys
import tracemalloc
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


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, 1.5, 7.0, np.inf]) | st.floats(-9, 9), min_size=1),
    parts=st.integers(1, 9),
    sample=st.integers(1, 50),
)
def test_dense_ranks_are_those_of_the_sorted_values(values: list[float], parts: int, sample: int) -> None:
    column = np.array(values)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ranks, "PARTS", parts)
        patched.setattr(ranks, "SAMPLE", sample)
        found = ranks.dense_ranks(column)
    assert found.tolist() == np.unique(column, return_inverse=True)[1].tolist()


@pytest.mark.parametrize("most", [1, 3, 10**6], ids=["constant", "three values", "all different"])
def test_ranks_need_less_memory_than_the_column(most: int) -> None:
    """An order of all rows alone would be as large as the column."""
    column = np.random.default_rng(1).integers(0, most, 400_000) / 7
    tracemalloc.start()
    try:
        ranks.dense_ranks(column)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.1 * column.nbytes


def test_a_column_of_numbers_is_read_without_pandas(tmp_path: Path) -> None:
    """Pandas takes 50 MiB, and Arrow loads it wherever it finds it."""
    (tmp_path / "numbers.csv").write_text("a,b\n1,2.5\n3,4\n5,0\n")
    told = 'columns="a,b", levels=(2, 2), ranges={"a": (0, 9), "b": (0, 9)}'
    code = f'import sys, parley; parley.problem("numbers.csv", "kendall", {told}); print("pandas" in sys.modules)'
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
