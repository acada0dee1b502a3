"""What bins hide: exact where the model is the truth, nothing where bins are the fine levels."""

import numpy as np
import pytest

from parley.protocols.bins.hidden import SHARPER, Column, hidden, model_taus, typical_hidden
from parley.protocols.planning.families.bins import best_levels


def even(bins: int, width: int) -> Column:
    return Column(np.full(bins, 1 / bins), np.full(bins, width))


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7, -0.5])
def test_the_model_has_the_tau_of_normal_variables(correlation: float) -> None:
    """Kendall's tau of a normal pair is 2 arcsin(rho) / pi; 24 bins of 12 parts show it but for a little."""
    _, fine = model_taus(even(24, 12), even(24, 12), correlation)
    assert fine == pytest.approx(2 * np.arcsin(correlation) / np.pi, abs=0.002)


@pytest.mark.parametrize("correlation", [0.3, 0.7, -0.5])
def test_hidden_is_what_the_model_hides(correlation: float) -> None:
    first, second = even(8, 6), even(12, 4)
    binned, fine = model_taus(first, second, correlation)
    assert hidden(first, second, binned).amount == pytest.approx(SHARPER * (fine - binned), abs=2e-3)
    ties = hidden(first, second, binned, ties=True).amount
    coarse, exact = ((1 - 1 / 8) * (1 - 1 / 12)) ** 0.5, ((1 - 1 / 48) * (1 - 1 / 48)) ** 0.5
    more = SHARPER * (fine - binned)
    assert ties == pytest.approx((binned + more) / exact - binned / coarse, abs=2e-3)


def test_bins_of_one_level_hide_nothing() -> None:
    assert hidden(even(8, 1), even(8, 1), 0.3).amount == 0.0
    assert hidden(even(8, 1), even(8, 1), 0.3, ties=True).amount == pytest.approx(0.0, abs=1e-12)


def test_more_bins_hide_less() -> None:
    amounts = [typical_hidden((many, many), (1024, 1024)).amount for many in (4, 8, 16, 32)]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[-1] > 0


def test_the_best_number_of_bins_grows_with_the_users() -> None:
    few = best_levels("kendall", (1024, 1024), epsilon=1.0, users=2000)
    many = best_levels("kendall", (1024, 1024), epsilon=1.0, users=300_000)
    assert few[0] < many[0]
    assert best_levels("kendall", (5, 7), epsilon=1.0, users=2000) == (5, 7)
