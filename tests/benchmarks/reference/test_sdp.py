"""Semidefinite programs: answers are proved without the solver, and failures are errors."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.reference import sdp
from parley.emulator.errors import BadInput, ParleyError
from parley.protocols.factorization.zeta import Certificate, certificate, polar_certificate, zeta

GENERATOR = np.random.Generator(np.random.PCG64(21))
SIGNS = np.sign(GENERATOR.standard_normal((12, 12)))
MATRICES = {
    "signs": SIGNS,
    "triangular": np.tril(np.ones((10, 10))),
    "rectangular": 5 * GENERATOR.standard_normal((12, 4)),
    "larger": np.sign(GENERATOR.standard_normal((30, 30))),
}


def _check(optimum: sdp.Optimum, workload: np.ndarray) -> None:
    """The factorization is exact and within alpha of the shifted workload, and the bounds are in order."""
    error = np.abs(optimum.factorization.dense() + optimum.shift - workload)
    assert np.max(error) <= optimum.alpha + 1e-10 * np.max(np.abs(workload))
    assert 0 <= optimum.lower <= optimum.upper
    assert optimum.gap <= 1e-3


@pytest.mark.parametrize("name", MATRICES)
def test_gamma(name: str) -> None:
    workload = MATRICES[name]
    optimum = sdp.gamma(workload)
    _check(optimum, workload)
    assert optimum.certificate.gamma(workload) == optimum.lower
    assert optimum.factorization.upper == optimum.upper


@pytest.mark.parametrize("name", ["signs", "triangular", "rectangular"])
def test_approximate_gamma_falls_with_alpha(name: str) -> None:
    workload = MATRICES[name]
    largest = float(np.max(np.abs(workload)))
    bounds = []
    for share in (0.0, 0.1, 0.4, 1.0):
        optimum = sdp.approximate_gamma(workload, share * largest)
        _check(optimum, workload)
        assert optimum.certificate.gamma(workload, share * largest) == pytest.approx(optimum.lower)
        bounds.append(optimum)
    assert all(later.upper < earlier.lower for earlier, later in itertools.pairwise(bounds))
    assert bounds[-1].upper == 0.0


@pytest.mark.parametrize("slope", [0.5, 3.0, 6.0, 100.0])
def test_zeta_is_the_best_trade_between_gamma_and_alpha(slope: float) -> None:
    workload = MATRICES["triangular"]
    optimum = sdp.zeta(workload, users=int(4 * slope**2), epsilon=0.5)
    _check(optimum, workload)
    assert optimum.upper == pytest.approx(optimum.factorization.upper + slope * optimum.alpha)
    assert optimum.certificate.zeta(workload, slope) == pytest.approx(optimum.lower)
    for alpha in (0.0, 0.2, 0.5, optimum.alpha):
        assert optimum.lower <= sdp.approximate_gamma(workload, alpha).upper + slope * alpha + 1e-9


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_what_protocols_ask_for_is_the_same_program(slope: float) -> None:
    workload = MATRICES["triangular"]
    optimum, found = sdp.zeta(workload, users=int(4 * slope**2), epsilon=0.5), zeta(workload, slope)
    assert found is not None
    alpha, factorization = found
    assert alpha == pytest.approx(optimum.alpha, abs=1e-3)
    assert factorization.upper + slope * alpha == pytest.approx(optimum.upper, rel=1e-3)
    assert np.max(np.abs(factorization.dense() - workload)) <= alpha + 1e-10


def test_zeta_is_gamma_for_many_users() -> None:
    """Once eps sqrt(n) exceeds sqrt(k) approximation buys nothing."""
    optimum = sdp.zeta(SIGNS, users=100, epsilon=0.5)
    assert optimum.alpha <= 1e-3
    assert optimum.upper == pytest.approx(sdp.gamma(SIGNS).upper, rel=2e-3)


def test_shifted_gamma_is_no_larger_than_at_any_shift() -> None:
    workload = MATRICES["triangular"]
    optimum = sdp.shifted_gamma(workload)
    _check(optimum, workload)
    for shift in (0.0, 0.4, 0.5, 0.6, 1.0):
        assert optimum.lower <= sdp.gamma(workload - shift).upper + 1e-9


def test_trivial_programs_need_no_solver() -> None:
    assert sdp.gamma(np.zeros((3, 3))).upper == 0
    assert sdp.approximate_gamma(SIGNS, 1.5).upper == 0
    assert sdp.shifted_gamma(np.full((3, 3), 2.0)).shift == 2.0


def test_an_unreachable_tolerance_is_a_failure_and_not_a_number() -> None:
    with pytest.raises(sdp.SolverFailed, match="no solver met the tolerance"):
        sdp.gamma(np.array([[1.0, 2.0], [3.0, -4.0]]), tolerance=1e-15)
    assert issubclass(sdp.SolverFailed, ParleyError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sdp.gamma(np.ones((129, 3))), "up to k = 128, got 129 x 3"),
        (lambda: sdp.gamma([[np.nan]]), "finite"),
        (lambda: sdp.approximate_gamma(SIGNS, -1.0), "alpha"),
        (lambda: sdp.zeta(SIGNS, users=0, epsilon=1.0), "at least one user"),
        (lambda: sdp.zeta(SIGNS, users=5, epsilon=0.0), "epsilon > 0"),
    ],
)
def test_bad_input_is_refused_before_work_starts(call: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()  # type: ignore[operator]


def test_cvxpy_is_imported_only_when_called() -> None:
    script = "import sys; import parley.protocols.factorization.zeta; sys.exit('cvxpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_no_certificate_proves_too_much() -> None:
    """Any G and any weights give a valid bound: random ones never exceed what a factorization attains."""
    generator = np.random.Generator(np.random.PCG64(22))
    upper = sdp.gamma(SIGNS).upper
    for _ in range(50):
        noise = SIGNS * generator.random(SIGNS.shape) + generator.standard_normal(SIGNS.shape)
        weights = generator.dirichlet(np.ones(12), size=2)
        for proof in (Certificate(matrix=noise, rows=weights[0], columns=weights[1]), certificate(noise, *weights)):
            assert proof.gamma(SIGNS) <= upper
            assert proof.gamma(SIGNS, 0.3) <= max(0.0, upper - 0.3)
            assert proof.zeta(SIGNS, 2.0) <= min(upper, 2.0)
            assert sdp.shifted_bound(proof, SIGNS) <= upper
        assert polar_certificate(SIGNS, *weights).gamma(SIGNS) <= upper
    with pytest.raises(BadInput, match="sum to one"):
        Certificate(matrix=SIGNS, rows=np.ones(12), columns=np.ones(12) / 12)
