"""Kernels from files, and Lipschitz kernels from names, functions and tables."""

from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.kernel import Kernel, load_kernel
from parley.protocols.workloads.lipschitz import DISTANCES, Lipschitz, named_distance

MATRIX = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 5.0], [1.0, 1.0, 0.5]])


def test_a_kernel_keeps_a_read_only_symmetric_copy() -> None:
    source = MATRIX.copy()
    kernel = Kernel(source)
    source[:] = 0
    assert np.array_equal(kernel.matrix(), (MATRIX + MATRIX.T) / 2)
    with pytest.raises(ValueError, match="read-only"):
        kernel.matrix()[0, 0] = 7
    assert kernel.bounds == (-1.0, 3.0)
    assert list(kernel.linear_queries()) == ["diagonal"]
    assert Kernel(np.ones((3, 3))).linear_queries() == {}


def test_the_largest_finite_numbers_do_not_overflow() -> None:
    largest = np.finfo(np.float64).max
    assert Kernel(np.full((2, 2), largest)).matrix().max() == largest


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones((2, 3)), "square, got 2 x 3"),
        (np.ones((1, 1)), "at least 2 rows"),
        (np.ones(4), "matrix of real numbers"),
        (np.array([[0, np.nan], [0, 0]]), "nan at row 1, column 2"),
        (np.array([[0, 0], [-np.inf, 0]]), "-inf at row 2, column 1"),
        (np.array([["a", "b"], ["c", "d"]]), "matrix of real numbers"),
    ],
)
def test_bad_matrices_are_refused(matrix: np.ndarray, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Kernel(matrix)


def test_files_hold_the_same_kernel(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", MATRIX)
    np.save(tmp_path / "integers.npy", np.array([[0, 1], [1, 0]]))
    np.savetxt(tmp_path / "w.csv", MATRIX, delimiter=",", fmt="%.17g")
    (tmp_path / "spaces.csv").write_text("0, 1\n1 ,0\n\n")
    assert load_kernel(tmp_path / "w.npy") == load_kernel(tmp_path / "w.csv") == Kernel(MATRIX)
    assert load_kernel(str(tmp_path / "integers.npy")) == load_kernel(tmp_path / "spaces.csv")


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("w.csv", b"", "holds no numbers"),
        ("w.csv", b"1,2\n3\n", "row 2 has 1 numbers, but row 1 has 2"),
        ("w.csv", b"1,2\n3,x\n", "'x' in line 2, column 2, is not a number"),
        ("w.csv", b"1,2,3\n4,5,6\n", "square, got 2 x 3"),
        ("w.csv", b"1,2\n3,nan\n", "nan at row 2, column 2"),
        ("w.csv", b"\xff\xfe\x00", "not a .csv file of numbers"),
        ("w.csv", b",".join([b"1"] * 20000), "GiB"),
        ("w.npy", b"", "not a whole .npy file"),
        ("w.npy", b"hello, world", "not a whole .npy file"),
        ("w.txt", b"1", "must be a .npy or a .csv file"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BadInput, match=sentence) as problem:
        load_kernel(path)
    assert str(path) in str(problem.value)


def test_no_file_no_pickle_no_half_file(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        load_kernel(tmp_path / "none.npy")
    with pytest.raises(BadInput, match="No such file"):
        load_kernel(tmp_path / "none.csv")
    np.save(tmp_path / "pickle.npy", np.array([[None, 1], [2, 3]], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="not a whole"):
        load_kernel(tmp_path / "pickle.npy")
    np.save(tmp_path / "half.npy", MATRIX)
    whole = (tmp_path / "half.npy").read_bytes()
    (tmp_path / "half.npy").write_bytes(whole[:-8])
    with pytest.raises(BadInput, match="not a whole"):
        load_kernel(tmp_path / "half.npy")


def test_the_header_of_a_huge_file_is_enough_to_refuse_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.npy"
    with path.open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (16385, 16385)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 8 * 16385**2)
    with pytest.raises(BadInput, match="GiB"):
        load_kernel(path)


@pytest.mark.parametrize("name", sorted(DISTANCES))
@pytest.mark.parametrize("width", [None, 0.05, 0.7, 3.0])
def test_named_distances_know_their_lipschitz_constant(name: str, width: float | None) -> None:
    if width is not None and not DISTANCES[name].scaled:
        with pytest.raises(BadInput, match="takes no width"):
            named_distance(name, width)
        return
    distance, wide = named_distance(name, width)
    points = np.linspace(0, 1, 20001)
    steepest = np.abs(np.diff(distance.profile(points, wide))).max() * 20000
    assert steepest <= distance.constant(wide) * (1 + 1e-9)
    assert steepest >= distance.constant(wide) * 0.999


def test_a_function_a_table_and_a_name_are_the_same_kernel() -> None:
    named = Lipschitz("absolute-difference", levels=16)
    called = Lipschitz(lambda x, y: abs(x - y), levels=16, constant=1)
    table = Lipschitz(called.matrix(), levels=16, constant=1.0)
    assert np.allclose(named.matrix(), called.matrix(), rtol=0, atol=1e-15)
    assert called == table
    assert np.allclose(named.matrix(), GiniMeanDifference(levels=16).matrix() * 15 / 16, rtol=0, atol=1e-15)


def test_twice_the_variance_is_a_lipschitz_statistic() -> None:
    workload = Lipschitz("squared-difference", levels=64)
    inputs = np.random.default_rng(4).integers(64, size=300)
    assert workload.exact(inputs) == pytest.approx(2 * np.var(inputs / 64, ddof=1), rel=1e-12)


def test_only_the_symmetric_part_of_a_function_is_kept() -> None:
    workload = Lipschitz(lambda x, y: x, levels=4, constant=1.0)
    assert np.allclose(workload.matrix(), Lipschitz(lambda x, y: (x + y) / 2, levels=4, constant=1.0).matrix())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"function": "absolute-diference"}, "did you mean 'absolute-difference'"),
        ({"function": "huber", "width": -1.0}, "width of huber must lie between"),
        ({"function": "absolute-difference", "constant": 0.5}, "constant 1.0, so 0.5 is too small"),
        ({"function": "absolute-difference", "constant": float("nan")}, "positive number"),
        ({"function": lambda x, y: x * y}, "say the Lipschitz constant"),
        ({"function": lambda x, y: x * y, "constant": 0.1}, "not 0.1-Lipschitz"),
        ({"function": lambda x, y: x * y, "constant": 0}, "positive number"),
        ({"function": lambda x, y: float("inf"), "constant": 1}, "must be finite"),
        ({"function": lambda x: x, "constant": 1}, "two numbers and return one"),
        ({"function": lambda x, y: None, "constant": 1}, "two numbers and return one"),
        ({"function": lambda x, y: x, "constant": 1, "width": 0.5}, "width belongs to a named distance"),
        ({"function": 7, "constant": 1}, "a name, a function or a table"),
        ({"function": np.zeros((3, 3)), "constant": 1}, "must be 8 x 8"),
    ],
)
def test_bad_lipschitz_kernels_are_refused(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Lipschitz(**arguments, levels=8)


def test_a_function_on_too_many_levels_is_refused_before_it_is_called() -> None:
    def never(x: float, y: float) -> float:
        raise AssertionError("called")

    with pytest.raises(BadInput, match="GiB"):
        Lipschitz(never, levels=2**20, constant=1.0)
