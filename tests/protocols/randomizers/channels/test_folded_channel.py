"""An explicit channel counted by folds: replies are the channel's, and rows that are mixtures of others are refused."""

from typing import Any

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.protocols.planning import fast_simulation
from parley.protocols.randomizers.channels.channel import Channel, subsets
from parley.protocols.randomizers.channels.folded_channel import PRIME, FoldedChannel, check_determined
from tests.contracts.randomizer_contract import random_coins

TABLE = subsets(4, 2, 1.0).weights


def made(**changes: Any) -> FoldedChannel:
    return FoldedChannel(**{"weights": TABLE, "epsilon": 1.0, "folds": 3, **changes})


def test_a_fold_changes_nothing_but_where_a_reply_is_counted() -> None:
    folded, plain = made(), Channel(weights=TABLE, epsilon=1.0)
    coins, inputs, place = random_coins(plain, 600, 3), np.arange(600.0) % 4, np.arange(600) // 200
    said = folded.sample(np.column_stack([inputs, place]), coins)
    assert {name: column.tolist() for name, column in said.items()} == {
        name: column.tolist() for name, column in plain.sample(inputs, coins).items()
    }
    whole = {**said, "place": place.astype(np.uint16)}
    counts = folded.total(whole)
    assert counts.shape == (3, 6)
    assert counts.sum(axis=1).tolist() == [200, 200, 200]
    assert np.array_equal(counts.sum(axis=0), plain.total(said))
    assert np.array_equal(folded.decode(whole).sum(axis=0), counts)
    every = np.column_stack([np.arange(4.0), np.full(4, 2)])
    assert np.array_equal(folded.log_likelihood(whole, every), plain.log_likelihood(said, np.arange(4.0)))


def test_cells_stand_for_replies() -> None:
    folded = made()
    cells = np.arange(folded.cells)
    assert np.array_equal(folded.cell(folded.in_cells(cells)), cells)
    likelihoods = np.exp(folded.log_likelihood(folded.in_cells(cells), np.arange(4.0)))
    np.testing.assert_allclose(likelihoods, folded.likelihood(np.float64))


def test_drawn_tallies_have_the_channel_s_mean() -> None:
    counts = np.array([40_000, 0, 20_000, 0])
    drawn = fast_simulation.total(made(), np.arange(4), counts, np.random.default_rng(1))
    expected = (counts @ made().probabilities)[None] / 3
    assert drawn.sum() == 60_000
    assert np.abs(drawn - expected).max() <= 6 * np.sqrt(expected.max())


@pytest.mark.parametrize(
    "bad", [np.arange(4.0), np.array([[0.0, 3.0]]), np.array([[0.0, -1.0]]), np.array([[4.0, 0.0]])]
)
def test_bad_inputs_and_places_are_refused(bad: Any) -> None:
    with pytest.raises(BadInput):
        made().sample(bad, random_coins(made(), len(bad), 1))


def test_an_output_that_nobody_sends_is_refused() -> None:
    table = np.concatenate([TABLE[:, :2], np.zeros((4, 1), dtype=np.int64), TABLE[:, 2:]], axis=1)
    with pytest.raises(BadInput, match="output 2 is one that nobody sends"):
        check_determined(table)
    with pytest.raises(BadInput, match="folds"):
        made(folds=0)


def test_rows_that_are_mixtures_are_refused_by_their_input() -> None:
    check_determined(TABLE)
    mixed = TABLE.copy()
    mixed[2] = (mixed[0] + mixed[1]) // 2
    with pytest.raises(BadInput, match="input 2 "):
        check_determined(mixed)
    with pytest.raises(BadInput, match="input 3 "):
        check_determined(np.eye(4, 3, dtype=np.int64) + 1)
    with pytest.raises(BadInput, match="input 1 "):
        check_determined(np.array([[5, 3], [5 + PRIME, 3]], dtype=np.int64))
