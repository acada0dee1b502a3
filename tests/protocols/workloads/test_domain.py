"""Domains: bins, categories and pairs, and the sentences with which bad data are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.emulator.errors import BadInput
from parley.protocols.workloads.domain import Categories, Interval, Pair
from parley.protocols.workloads.gini import GiniMeanDifference
from parley.protocols.workloads.lipschitz import Lipschitz
from tests.protocols.workloads.conftest import encode

AGE = Interval("age", 0, 120, 12)
ANSWER = Categories("answer", ("no", "maybe", "yes"))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    low = draw(st.floats(-1e6, 1e6))
    width = draw(st.floats(1e-3, 1e6))
    return Interval("x", low, low + width, draw(st.integers(2, 300)))


@given(intervals(), st.lists(st.floats(allow_nan=False), min_size=1, max_size=30))
def test_every_value_lands_in_its_bin_or_is_clipped_and_counted(domain: Interval, values: list[float]) -> None:
    encoded = encode(domain, {"x": np.array(values)})
    outside = [value < domain.low or value > domain.high for value in values]
    assert encoded.clipped == {"x": sum(outside)}
    for value, index, clipped in zip(values, encoded.indices.tolist(), outside, strict=True):
        if clipped:
            assert index == (0 if value < domain.low else domain.levels - 1)
        else:
            assert domain.edges[index] <= value <= domain.edges[index + 1]
            assert value < domain.edges[index + 1] or index == domain.levels - 1


def midpoints(domain: Interval) -> np.ndarray:
    return (domain.edges[:-1] + domain.edges[1:]) / 2


@given(intervals())
def test_midpoints_stay_in_their_bins(domain: Interval) -> None:
    encoded = encode(domain, {"x": midpoints(domain)})
    assert encoded.indices.tolist() == list(range(domain.levels))
    assert encoded.clipped == {"x": 0}


@given(st.lists(st.tuples(st.floats(0, 120), st.sampled_from(ANSWER.values)), min_size=1, max_size=30))
def test_a_pair_is_both_of_its_columns(rows: list[tuple[float, str]]) -> None:
    age, answer = (np.array(column) for column in zip(*rows, strict=True))
    pair = Pair(AGE, ANSWER)
    encoded = encode(pair, {"age": age, "answer": answer})
    first, second = np.divmod(encoded.indices, ANSWER.size)
    assert np.array_equal(first, encode(AGE, {"age": age}).indices)
    assert np.array_equal(second, encode(ANSWER, {"answer": answer}).indices)
    assert pair.size == 36


def test_bins_are_closed_below_and_the_last_one_above() -> None:
    encoded = encode(AGE, {"age": np.array([0, 9.999, 10, 119, 120, 121, -1, np.inf, -np.inf])})
    assert encoded.indices.tolist() == [0, 0, 1, 11, 11, 11, 0, 11, 0]
    assert encoded.indices.dtype == np.int64
    assert encoded.clipped == {"age": 4}


def test_encoding_depends_on_the_declaration_alone() -> None:
    """A row's input is the same whoever else is in the data."""
    values = np.random.default_rng(2).normal(60, 40, size=50)
    together = encode(AGE, {"age": values}).indices
    alone = [int(encode(AGE, {"age": values[i : i + 1]}).indices[0]) for i in range(50)]
    assert together.tolist() == alone


def test_numbers_may_come_as_text_or_objects() -> None:
    assert encode(AGE, {"age": np.array(["15", " 25.5 ", "1e1"])}).indices.tolist() == [1, 2, 1]
    assert encode(AGE, {"age": np.array([15, 25.5, True], dtype=object)}).indices.tolist() == [1, 2, 0]
    assert encode(AGE, {"age": np.array([15, 25], dtype=np.uint8)}).indices.tolist() == [1, 2]


def test_categories_are_compared_as_text() -> None:
    label = Categories("label", (0, 1))
    for column in (np.array([1, 0, 1]), np.array([1.0, 0.0, 1.0]), np.array(["1", "0", " 1"])):
        assert encode(label, {"label": column}).indices.tolist() == [1, 0, 1]
    assert label.declared[0].categories == ("0", "1")
    assert encode(Categories("b", (False, True)), {"b": np.array([True, False])}).indices.tolist() == [1, 0]


@pytest.mark.parametrize(
    "column",
    [
        np.array([np.nan, 1.0, 2.0, np.nan]),
        np.array([None, 1.0, 2.0, None], dtype=object),
        np.array(["", "1", "2", "nan"]),
    ],
)
def test_missing_numbers_are_refused_with_their_rows(column: np.ndarray) -> None:
    with pytest.raises(BadInput, match="age has no value in rows 1, 4; leave such rows out"):
        encode(AGE, {"age": column})


def test_missing_categories_are_refused_with_their_rows() -> None:
    with pytest.raises(BadInput, match="answer has no value in row 2;"):
        encode(ANSWER, {"answer": np.array(["no", None], dtype=object)})
    with pytest.raises(BadInput, match="in rows 1, 2, 3, 4, 5 and 15 more"):
        encode(ANSWER, {"answer": np.array([""] * 20)})


def test_unknown_categories_are_refused_with_row_and_nearest_name() -> None:
    with pytest.raises(BadInput, match=r"row 2 of answer holds 'mayby'.* did you mean 'maybe'\?"):
        encode(ANSWER, {"answer": np.array(["no", "mayby"])})
    with pytest.raises(BadInput, match="choose one of no, maybe, yes"):
        encode(ANSWER, {"answer": np.array(["qqqq"])})


def test_text_is_not_a_number() -> None:
    with pytest.raises(BadInput, match="row 2 of age holds 'old', which is not a number"):
        encode(AGE, {"age": np.array(["3", "old"])})
    with pytest.raises(BadInput, match="not a number"):
        encode(AGE, {"age": np.array([10**400, 1], dtype=object)})


def test_missing_columns_and_odd_shapes() -> None:
    with pytest.raises(BadInput, match=r"no column 'age'; did you mean 'ages'\?"):
        encode(AGE, {"ages": np.arange(3)})
    with pytest.raises(BadInput, match="must be a vector"):
        encode(AGE, {"age": np.zeros((2, 2))})
    with pytest.raises(BadInput, match="age and answer must have equally many rows, got 3 and 2"):
        encode(Pair(AGE, ANSWER), {"age": np.arange(3), "answer": np.array(["no", "yes"])})


@pytest.mark.parametrize(
    ("low", "high", "levels", "sentence"),
    [
        (1, 1, 4, "low < high"),
        (2, 1, 4, "low < high"),
        (0, np.inf, 4, "low < high"),
        (np.nan, 1, 4, "low < high"),
        ("a", 1, 4, "two numbers"),
        (0, 1, 1, "between 2"),
        (0, 1, 2.5, "whole number"),
        (0, 1, True, "whole number"),
        (0, 1, 2**25, "between 2"),
        (1, 1 + 1e-15, 100, "too narrow"),
        (-1.7e308, 1.7e308, 100, "too wide"),
    ],
)
def test_bad_intervals_are_refused(low: float, high: float, levels: int, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        Interval("x", low, high, levels)


def test_bad_categories_and_pairs_are_refused() -> None:
    with pytest.raises(BadInput, match="at least 2 categories"):
        Categories("c", ("one",))
    with pytest.raises(BadInput, match="'1' of c is declared twice"):
        Categories("c", (1, "1"))
    with pytest.raises(BadInput, match="missing value"):
        Categories("c", ("one", ""))
    with pytest.raises(BadInput, match="cannot be both"):
        Pair(AGE, Interval("age", 0, 1, 2))
    with pytest.raises(BadInput, match="number of inputs"):
        Pair(Interval("a", 0, 1, 2**13), Interval("b", 0, 1, 2**13))


def mean_difference(values: np.ndarray) -> float:
    return float(np.abs(values[:, None] - values[None, :]).sum() / (len(values) * (len(values) - 1)))


@given(st.lists(st.floats(0, 120), min_size=2, max_size=40), st.integers(2, 50))
def test_binned_statistics_are_within_the_discretisation_error(values: list[float], levels: int) -> None:
    domain = Interval("age", 0, 120, levels)
    inputs = encode(domain, {"age": np.array(values)}).indices
    truth = mean_difference(np.array(values))
    gini = GiniMeanDifference(levels=levels)
    width = 120 / levels
    in_units = gini.exact(inputs) * width * (levels - 1)
    assert abs(in_units - mean_difference(midpoints(domain)[inputs])) <= 1e-9
    assert abs(in_units - truth) <= width + 1e-9
    lipschitz = Lipschitz("absolute-difference", levels=levels)
    assert abs(lipschitz.exact(inputs) - truth / 120) <= lipschitz.constant / levels + 1e-12
