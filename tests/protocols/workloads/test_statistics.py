"""Every workload against brute force over pairs, against its own dense matrix, and against scipy and sklearn."""

from fractions import Fraction
from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import roc_auc_score

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Setup
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.gini import GiniDiversity, GiniMeanDifference
from parley.protocols.workloads.kendall import Kendall, KendallTauB, Untied
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.linear import LinearQueries
from parley.protocols.workloads.lipschitz import Lipschitz
from parley.protocols.workloads.workload import Workload


def draws(size: int, users: int = 40, seed: int = 3) -> Inputs:
    return np.random.default_rng(seed).integers(size, size=users)


def over_pairs(workload: Workload, inputs: Inputs) -> float:
    """The definition: the mean of f over pairs of different users."""
    matrix = workload.matrix()
    users = range(len(inputs))
    values = [matrix[inputs[i], inputs[j]] for i in users for j in users if i != j]
    return float(np.mean(values))


def test_the_matrix_is_symmetric_and_everything_agrees_with_it(workload: Workload) -> None:
    matrix = workload.matrix()
    assert matrix.shape == (workload.size, workload.size)
    assert np.array_equal(matrix, matrix.T)
    assert np.array_equal(workload.diagonal(), matrix.diagonal())
    assert workload.infinity_norm == np.abs(matrix).max()
    low, high = workload.bounds
    if workload.name != "auc":
        assert low <= matrix.min()
        assert matrix.max() <= high


def test_apply_multiplies_by_the_matrix(workload: Workload) -> None:
    vectors = np.random.default_rng(1).normal(size=(workload.size, 3))
    assert np.allclose(workload.apply(vectors), workload.matrix() @ vectors, rtol=0, atol=1e-13)
    assert np.allclose(workload.apply(vectors[:, 0]), workload.matrix() @ vectors[:, 0], rtol=0, atol=1e-13)
    expected = vectors[:, 1] @ workload.matrix() @ vectors[:, 1]
    assert isclose(workload.form(vectors[:, 1]), expected, abs_tol=1e-12)


def test_apply_refuses_a_vector_of_the_wrong_length(workload: Workload) -> None:
    with pytest.raises(ValueError, match="rows"):
        workload.apply(np.zeros(2 * workload.size))


def test_exact_is_the_mean_over_pairs(workload: Workload) -> None:
    for users in (2, 3, 40):
        inputs = draws(workload.size, users)
        expected = over_pairs(workload, inputs)
        if isinstance(workload, AreaUnderCurve):
            inputs[0] ^= inputs[0] % 2 == inputs[1] % 2
            expected = 0.5 + over_pairs(workload, inputs) / (
                2 * over_pairs(Untied(levels=(workload.levels, 2), axis=1), inputs)
            )
        assert isclose(workload.exact(inputs), expected, rel_tol=1e-12, abs_tol=1e-13)


def test_the_statistic_follows_from_the_form_and_its_linear_queries(workload: Workload) -> None:
    inputs = draws(workload.size)
    histogram = workload.histogram(inputs)
    means = {name: float(query @ histogram) for name, query in workload.linear_queries().items()}
    value = workload.value(workload.form(histogram), means, len(inputs))
    assert isclose(value, workload.exact(inputs), rel_tol=1e-12, abs_tol=1e-13)


def test_the_gradient_is_the_derivative_of_the_value(workload: Workload) -> None:
    means = dict.fromkeys(workload.linear_queries(), 0.3)
    gradient = workload.gradient(0.2, means, 50)
    assert set(gradient) == {"form", *means}
    step = 1e-6
    forward, backward = (workload.value(0.2 + change, means, 50) for change in (step, -step))
    assert isclose(gradient["form"], (forward - backward) / (2 * step), rel_tol=1e-6)
    for name in means:
        forward, backward = (workload.value(0.2, {**means, name: 0.3 + change}, 50) for change in (step, -step))
        assert isclose(gradient[name], (forward - backward) / (2 * step), rel_tol=1e-6)


def test_the_kind_describes_the_shifted_matrix(workload: Workload) -> None:
    shifted, shape = workload.matrix() - workload.shift, workload.shape
    assert np.prod(shape) == workload.size
    if workload.kind == "kendall":
        first, second = (np.array([[np.sign(j - i) for j in range(m)] for i in range(m)]) for m in shape)
        described = np.kron(first, second)
    elif workload.kind == "threshold":
        (levels,) = shape
        described = np.array([[abs(i - j) / (levels - 1) - 0.5 for j in range(levels)] for i in range(levels)])
    elif workload.kind == "identity":
        described = 1 / workload.size - np.eye(workload.size)
    elif workload.kind == "margin":
        assert isinstance(workload, Untied)
        key = np.indices(shape)[workload.axis].ravel()
        described = -(key[:, None] == key[None, :]).astype(float)
    else:
        described = shifted
        assert np.allclose(shifted, shifted.T, rtol=0, atol=1e-15)
    assert np.allclose(shifted, described, rtol=0, atol=1e-15)
    if isinstance(workload, Lipschitz):
        assert np.abs(np.diff(shifted, axis=0)).max() <= workload.constant / workload.levels * (1 + 1e-9)


def test_parameters_rebuild_the_workload(workload: Workload) -> None:
    parameters = workload.parameters()
    again = Workload.from_parameters(parameters)
    assert again == workload
    assert hash(again) == hash(workload)
    assert np.array_equal(again.matrix(), workload.matrix())
    assert again.shift == workload.shift
    allowed = (str, int, float, bool, list, np.ndarray)
    assert all(isinstance(value, allowed) for value in parameters.values())


def test_different_parameters_are_different_workloads() -> None:
    assert Kendall(levels=(3, 4)) != Kendall(levels=(4, 3))
    assert Kernel(np.eye(3)) != Kernel(np.eye(3), shift=0.5)
    assert Kernel(np.eye(3)) != GiniDiversity(levels=3)
    assert Lipschitz("huber", levels=4) != Lipschitz("gaussian", levels=4)
    named = Lipschitz("absolute-difference", levels=4)
    assert named != Lipschitz(named.matrix(), levels=4, constant=1.0)
    assert LinearQueries(np.eye(3)) != LinearQueries(np.eye(4))


@pytest.mark.parametrize("change", [{"colour": "red"}, {"statistic": "kendal"}, {"statistic": None}, {"statistic": 3}])
def test_unknown_parameters_are_refused(workload: Workload, change: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Workload.from_parameters({**workload.parameters(), **change})


def test_missing_parameters_are_refused(workload: Workload) -> None:
    for name in workload.parameters():
        rest = {key: value for key, value in workload.parameters().items() if key != name}
        if name == "width":
            continue
        with pytest.raises(BadInput):
            Workload.from_parameters(rest)


@pytest.mark.parametrize(
    "parameters",
    [
        {"statistic": "kendall", "levels": [4]},
        {"statistic": "kendall", "levels": 4},
        {"statistic": "kendall", "levels": [4, 1]},
        {"statistic": "kendall", "levels": [4, 2.0]},
        {"statistic": "kendall", "levels": [True, 4]},
        {"statistic": "kendall", "levels": [2**20, 2**20]},
        {"statistic": "untied", "levels": [2, 2], "axis": 2},
        {"statistic": "untied", "levels": [2, 2], "axis": 1.0},
        {"statistic": "auc", "levels": 2**24},
        {"statistic": "gini-diversity", "levels": 1},
        {"statistic": "gini-mean-difference", "levels": "8"},
        {"statistic": "kernel", "matrix": [[1.0, 2.0], [3.0]], "shift": 0.0},
        {"statistic": "kernel", "matrix": np.eye(3), "shift": float("nan")},
        {"statistic": "kernel", "matrix": "matrix", "shift": 0.0},
        {"statistic": "kernel", "matrix": np.eye(3).astype(complex), "shift": 0.0},
        {"statistic": "lipschitz", "function": [[0.0]], "levels": 2, "constant": 1.0},
        {"statistic": "lipschitz", "function": np.eye(3), "levels": 2, "constant": 1.0},
        {"statistic": "lipschitz", "function": "huber", "levels": 2, "constant": 0.01},
        {"statistic": "lipschitz", "function": "huber", "levels": 2, "constant": 1.0, "width": "wide"},
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Workload.from_parameters(parameters)


def test_inputs_outside_of_the_domain_are_refused(workload: Workload) -> None:
    with pytest.raises(BadInput, match=f"user 1 has input {workload.size}"):
        workload.exact(np.array([0, workload.size, 1]))
    with pytest.raises(BadInput, match="input -1"):
        workload.exact(np.array([0, -1]))
    with pytest.raises(BadInput, match="vector of integers"):
        workload.exact(np.array([0.0, 1.0]))
    with pytest.raises(BadInput, match="at least 2 users"):
        workload.exact(np.array([0]))
    with pytest.raises(BadInput, match="at least 2 users"):
        workload.value(0.0, dict.fromkeys(workload.linear_queries(), 0.0), 1)


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=60)


@given(pairs)
def test_kendall_against_scipy(values: list[tuple[int, int]]) -> None:
    first, second = np.array(values).T
    inputs = first * 5 + second
    users = len(values)
    scores = [np.sign(a - c) * np.sign(b - d) for a, b in values for c, d in values]
    tau_a = Fraction(int(sum(scores)), users * (users - 1))
    assert Kendall(levels=(4, 5)).exact(inputs) == float(tau_a)
    if len(set(first)) == 1 or len(set(second)) == 1:
        with pytest.raises(BadInput, match="constant"):
            KendallTauB(levels=(4, 5)).exact(inputs)
        return
    tau_b = float(kendalltau(first, second).statistic)
    assert isclose(KendallTauB(levels=(4, 5)).exact(inputs), tau_b, rel_tol=1e-12, abs_tol=1e-12)
    # scipy counts ties in pairs (i < j): tau-a = tau-b * sqrt((n0 - n1)(n0 - n2)) / n0.
    n0 = users * (users - 1) / 2
    ties = [sum(count * (count - 1) / 2 for count in np.unique(x, return_counts=True)[1]) for x in (first, second)]
    through_scipy = tau_b * np.sqrt((n0 - ties[0]) * (n0 - ties[1])) / n0
    assert isclose(Kendall(levels=(4, 5)).exact(inputs), through_scipy, rel_tol=1e-12, abs_tol=1e-12)


def test_tau_b_is_the_same_from_forms_and_from_statistics() -> None:
    tau = KendallTauB(levels=(5, 6))
    inputs = draws(30, 200)
    forms = [workload.form(workload.histogram(inputs)) for workload in tau.forms]
    assert isclose(tau.combine(*forms), tau.exact(inputs), rel_tol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=60))
def test_area_against_sklearn(values: list[tuple[int, bool]]) -> None:
    score, label = np.array(values, dtype=np.int64).T
    area = AreaUnderCurve(levels=6)
    inputs = score * 2 + label
    if len(set(label)) == 1:
        with pytest.raises(BadInput, match="both labels"):
            area.exact(inputs)
        return
    expected = float(roc_auc_score(label, score))
    assert isclose(area.exact(inputs), expected, rel_tol=1e-12, abs_tol=1e-12)
    histogram = area.histogram(inputs)
    ratio = 0.5 + area.form(histogram) / (2 * Untied(levels=(6, 2), axis=1).form(histogram))
    assert isclose(ratio, expected, rel_tol=1e-12, abs_tol=1e-12)


def test_an_impossible_share_of_positives_still_gives_a_finite_area() -> None:
    area = AreaUnderCurve(levels=4)
    assert np.isfinite(area.value(0.1, {"positive": -0.2}, 100))
    assert area.value(0.1, {"positive": 1.4}, 100) == area.value(0.1, {"positive": 0.99}, 100)


def test_diversity_is_one_minus_simpson() -> None:
    inputs = np.array([0, 0, 1, 2])
    assert GiniDiversity(levels=3).exact(inputs) == 10 / 12
    assert GiniDiversity(levels=3).form(np.array([0.5, 0.25, 0.25])) == 1 - (0.25 + 0.0625 + 0.0625)


def test_large_domains_need_no_matrix() -> None:
    kendall = Kendall(levels=(1024, 1024))
    inputs = draws(kendall.size, 5000)
    tau_a = kendall.exact(inputs)
    first, second = np.divmod(inputs, 1024)
    assert isclose(
        KendallTauB(levels=(1024, 1024)).exact(inputs), float(kendalltau(first, second).statistic), abs_tol=1e-12
    )
    assert isclose(kendall.value(kendall.form(kendall.histogram(inputs)), {}, 5000), tau_a, abs_tol=1e-10)
    big = 2**20
    for workload in (GiniMeanDifference(levels=big), Lipschitz("absolute-difference", levels=big)):
        scale = (big - 1) / big if isinstance(workload, Lipschitz) else 1.0
        values = np.sort(draws(big, 1000))
        weights = 2 * np.arange(1000) - 999
        expected = 2 * float(weights @ values) / (1000 * 999) / (big - 1) * scale
        assert isclose(workload.exact(values), expected, rel_tol=1e-10)


@pytest.mark.parametrize(
    "workload",
    [
        Kendall(levels=(512, 512)),
        Untied(levels=(512, 512), axis=0),
        AreaUnderCurve(levels=2**20),
        GiniMeanDifference(levels=2**20),
        GiniDiversity(levels=2**20),
        Lipschitz("huber", levels=2**20),
    ],
    ids=lambda workload: workload.name,
)
def test_absurd_dense_matrices_are_refused(workload: Workload) -> None:
    with pytest.raises(BadInput, match="GiB"):
        workload.matrix()


def test_sums_do_not_overflow() -> None:
    """n^2 (k-1) is beyond 64 bits here."""
    levels = 2**24
    inputs = np.repeat([0, levels - 1], 1_000_000)
    assert GiniMeanDifference(levels=levels).exact(inputs) == 1_000_000 / 1_999_999


def test_linear_queries() -> None:
    matrix = np.tri(4, 5)
    queries = LinearQueries(matrix)
    inputs = np.array([0, 0, 3, 4])
    assert (len(queries.values), queries.size, queries.infinity_norm) == (4, 5, 1.0)
    assert queries.exact(inputs).tolist() == [0.5, 0.5, 0.5, 0.75]
    assert np.array_equal(queries.apply(np.eye(5)), matrix)
    assert LinearQueries.from_parameters(queries.parameters()) == queries
    with pytest.raises(BadInput, match="at least 1 users"):
        queries.exact(np.array([], dtype=np.int64))
    for bad in ({"queries": "linear-queries"}, {"queries": "x", "matrix": matrix}, {"matrix": matrix}):
        with pytest.raises(BadInput):
            LinearQueries.from_parameters(bad)
    for wrong in (np.ones(3), np.ones((3, 1)), np.full((2, 2), np.inf), np.ones((0, 3))):
        with pytest.raises(BadInput):
            LinearQueries(wrong)


def test_parameters_survive_the_wire(workload: Workload) -> None:
    setup = Setup(
        run="run", protocol="p", parameters={"workload": workload.parameters()}, epsilon=1.0, delta=0.0, rounds=1
    )
    heard = decode(encode(setup))
    assert isinstance(heard, Setup)
    assert Workload.from_parameters(heard.parameters["workload"]) == workload
