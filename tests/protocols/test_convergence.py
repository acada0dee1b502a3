"""Iterations that end before their goal say so in the log; those that reach it are silent."""

import logging

import numpy as np
import pytest

from parley.protocols.factorization import shift
from parley.protocols.factorization.closed_forms import kendall
from parley.protocols.factorization.fixed_point import fixed_point
from parley.protocols.factorization.operator import Dense
from parley.protocols.projection.l1_projection import project_l1
from parley.protocols.projection.simplex_projection import simplex_weights

GENERATOR = np.random.default_rng(9)
MATRIX = GENERATOR.standard_normal((8, 8)) + 3
FACTOR = Dense(GENERATOR.standard_normal((6, 9)))
POINT = 5 * GENERATOR.standard_normal(6)


def said(records: pytest.LogCaptureFixture, what: str) -> bool:
    return any(what in each.getMessage() and each.levelno == logging.WARNING for each in records.records)


def test_the_fixed_point_says_when_it_stopped_short(caplog: pytest.LogCaptureFixture) -> None:
    found = fixed_point(MATRIX, tolerance=1e-6, iterations=3)
    assert found.gap > 1e-6
    assert said(caplog, "gamma_2 stopped at a gap of")


def test_the_best_shift_says_so(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "EVALUATIONS", 0)
    shift.best_shift(MATRIX)
    assert said(caplog, "the best shift stopped at a gap of")


def test_projections_say_so(caplog: pytest.LogCaptureFixture) -> None:
    found = project_l1(FACTOR, POINT, tolerance=1e-12, iterations=2)
    assert found.gap > found.tolerance
    assert said(caplog, "R^Delta stopped at a gap of")
    simplex_weights(FACTOR, np.stack([POINT, -POINT]), tolerance=1e-12, passes=2)
    assert said(caplog, "2 of 2 points onto the simplex stopped at a gap of")


def test_whoever_arrives_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    fixed_point(MATRIX)
    shift.best_shift(MATRIX)
    project_l1(kendall(4, 4).right, np.ones(kendall(4, 4).rows))
    simplex_weights(FACTOR, np.stack([POINT, -POINT]))
    assert not caplog.records
