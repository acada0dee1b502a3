"""Coarsenings: a value's coarse input is the one that its fine input leads to, or there is no map."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.roles.consent import domain_of
from parley.protocols.workloads.declared import coarsening, view_of
from parley.protocols.workloads.domain import Categories, Domain, Interval, Pair
from tests.protocols.workloads.conftest import encode

AGE, SEX = Interval("age", 18, 90, 8), Categories("sex", ("f", "m", 3.0))


@pytest.mark.parametrize(
    "coarse",
    [
        Interval("age", 18, 90, 4),
        Interval("age", 18, 90, 8),
        SEX,
        Pair(SEX, AGE),
        Pair(Interval("age", 18, 90, 2), SEX),
    ],
)
def test_a_coarse_input_follows_from_the_fine_one(coarse: Interval | Categories | Pair) -> None:
    generator = np.random.default_rng(1)
    values = {"age": generator.uniform(10, 100, 500), "sex": generator.choice(np.array(["f", "m", "3"]), 500)}
    values["age"][:9] = AGE.edges
    found = coarsening(declared(Pair(AGE, SEX)), declared(coarse))
    assert found is not None
    assert np.array_equal(found[encode(Pair(AGE, SEX), values).indices], encode(coarse, values).indices)


@pytest.mark.parametrize(
    "other",
    [
        Interval("age", 18, 90, 3),
        Interval("age", 18, 90, 16),
        Interval("age", 0, 90, 4),
        Interval("height", 18, 90, 4),
        Categories("age", ("old", "young")),
        Categories("sex", ("m", "f", 3)),
        Pair(AGE, Interval("height", 0, 2, 2)),
    ],
)
def test_other_domains_have_no_map(other: Interval | Categories | Pair) -> None:
    assert coarsening(declared(Pair(AGE, SEX)), declared(other)) is None
    assert coarsening({}, declared(other)) is None


def declared(domain: Domain) -> dict[str, Any]:
    return domain_of(domain.size, domain.declared)


def test_a_view_is_the_closest_there_is() -> None:
    fine = declared(Pair(AGE, SEX))
    same = view_of(fine, declared(Pair(AGE, SEX)))
    assert (same.domain, same.coarsening) == (None, None)
    coarse = view_of(fine, declared(SEX))
    assert coarse.domain is None
    assert np.array_equal(coarse.coarsening, np.arange(24) % 3)
    other = Interval("age", 0, 90, 4)
    assert view_of(fine, declared(other)).domain == declared(other)
    # Values without columns are the same values; named ones are others.
    assert view_of({}, {}).domain is None
    assert view_of({}, declared(other)).domain == declared(other)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6), st.integers(2, 12), st.integers(1, 12))
def test_a_map_holds_for_every_value_beside_an_edge(low: float, width: float, levels: int, ratio: int) -> None:
    fine, coarse = Interval("x", low, low + width, levels * ratio), Interval("x", low, low + width, levels)
    found = coarsening(declared(fine), declared(coarse))
    if ratio & (ratio - 1) == 0:
        assert found is not None
    if found is not None:
        beside = np.concatenate([np.nextafter(e, d) for e in (fine.edges, coarse.edges) for d in (-np.inf, np.inf)])
        values = {"x": np.concatenate([beside, fine.edges, coarse.edges])}
        assert np.array_equal(found[encode(fine, values).indices], encode(coarse, values).indices)
