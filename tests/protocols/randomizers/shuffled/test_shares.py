"""Split-and-mix: what mixed shares show, by enumeration of all bags; exact sums; likelihoods; refusals."""

import itertools
import math

import numpy as np
import pytest

from parley.emulator.coins import addressed, key_from_seed
from parley.emulator.errors import BadInput
from parley.protocols.randomizers.shuffled.shares import Shares, security_of, shares_needed
from parley.protocols.randomizers.shuffled.skellam import Skellam

Bags = dict[tuple[int, ...], float]


def law_of_bags(modulus: int, shares: int, inputs: tuple[int, ...]) -> Bags:
    """The exact law of the bag of all shares: how often each residue occurs."""
    law: Bags = {(0,) * modulus: 1.0}
    own: dict[int, Bags] = {}
    for x in set(inputs):
        own[x] = {}
        for free in itertools.product(range(modulus), repeat=shares - 1):
            all_shares = (*free, (x - sum(free)) % modulus)
            bag = tuple(all_shares.count(residue) for residue in range(modulus))
            own[x][bag] = own[x].get(bag, 0.0) + modulus ** -(shares - 1)
    for x in inputs:
        after: Bags = {}
        for one, chance in law.items():
            for other, factor in own[x].items():
                both = tuple(map(sum, zip(one, other, strict=True)))
                after[both] = after.get(both, 0.0) + chance * factor
        law = after
    return law


def distance(one: Bags, other: Bags) -> float:
    return sum(abs(one.get(bag, 0.0) - other.get(bag, 0.0)) for bag in one.keys() | other.keys()) / 2


@pytest.mark.parametrize(("modulus", "shares", "users"), [(2, 3, 19), (2, 4, 19), (2, 5, 24), (4, 3, 19), (3, 3, 19)])
def test_mixed_shares_show_little_but_the_sum(modulus: int, shares: int, users: int) -> None:
    """For inputs with equal sums the exact total variation is below 2^-sigma."""
    security = ((shares - 2) * (math.log2(users) - math.log2(math.e)) - math.log2(modulus)) / 2
    if modulus & (modulus - 1) == 0:
        assert security == pytest.approx(security_of(shares, modulus.bit_length() - 1, users))
    flat = (0,) * users
    laws = [law_of_bags(modulus, shares, inputs) for inputs in (flat, (1, modulus - 1, *flat[2:]))]
    if modulus == 2:
        laws.append(law_of_bags(modulus, shares, (1,) * (users - users % 2) + (0,) * (users % 2)))
    for one, other in itertools.combinations(laws, 2):
        assert distance(one, other) <= 2.0**-security


def test_without_enough_shares_the_bag_tells() -> None:
    """One share is the number itself, and two of few users are nearly that: the check above can fail."""
    assert distance(law_of_bags(4, 1, (0, 0, 0)), law_of_bags(4, 1, (1, 3, 0))) == 1.0
    assert distance(law_of_bags(4, 2, (0, 0, 0)), law_of_bags(4, 2, (1, 3, 0))) > 0.2


def test_the_sum_is_all_there_is_and_it_is_exact() -> None:
    encoder = Shares(dimension=3, shares=4, bits=20, noise=Skellam(5.0))
    numbers = np.random.default_rng(1).integers(-1000, 1000, size=(400, 3))
    flips = addressed(key_from_seed(1), 1, 0, 400, encoder.coins)
    reply = encoder.sample(numbers, flips)
    assert reply[""].shape == (400, 3, 4)
    assert reply[""].dtype == np.uint32
    assert encoder.check(reply).all()
    noise = encoder.centred(encoder.total(reply)) - numbers.sum(axis=0)
    assert np.array_equal(encoder.decode(reply).sum(axis=0), numbers.sum(axis=0) + noise)
    words = flips.view("<u8").reshape(400, 3, 5)
    drawn = encoder.noise.draw(np.ascontiguousarray(words[:, :, 0]), np.ascontiguousarray(words[:, :, 1]))
    assert np.array_equal(noise, drawn.sum(axis=0))


def test_the_noise_of_a_sum_has_the_variance_of_the_formula() -> None:
    encoder = Shares(dimension=64, shares=3, bits=30, noise=Skellam(37.0))
    users, sums = 200, []
    for round_number in range(1, 41):
        flips = addressed(key_from_seed(9), round_number, 0, users, encoder.coins)
        sums.append(encoder.centred(encoder.total(encoder.sample(np.zeros((users, 64), np.int64), flips))))
    squares = np.asarray(sums, dtype=float).reshape(-1) ** 2
    expected = users * 37.0
    assert abs(squares.mean() - expected) < 5 * expected * math.sqrt(2 / squares.size)


def test_each_share_alone_is_uniform() -> None:
    encoder = Shares(dimension=1, shares=3, bits=2, noise=Skellam(1.0))
    shares = encoder.sample(np.full((40_000, 1), 3), addressed(key_from_seed(2), 1, 0, 40_000, encoder.coins))[""]
    for place in range(3):
        counts = np.bincount(shares[:, 0, place], minlength=4)
        statistic = float(((counts - 10_000) ** 2 / 10_000).sum())
        assert statistic < 30.7, f"chi-square {statistic} for share {place}, n 40000, threshold 30.7 (alpha 1e-6)"


def test_likelihoods_sum_to_one_and_know_the_input() -> None:
    """All pairs of shares mod 256, enumerated: the sum's distance from the input is the noise."""
    encoder = Shares(dimension=1, shares=2, bits=8, noise=Skellam(0.5))
    every = np.array(list(itertools.product(range(256), repeat=2)), dtype=np.uint32)[:, None, :]
    logs = encoder.log_likelihood({"": every}, np.array([[0], [3], [-7]]))
    assert np.exp(logs).sum(axis=0) == pytest.approx(np.ones(3), abs=1e-9)
    noise = (every.astype(np.int64).sum(axis=2)[:, 0] - 3 + 128) % 256 - 128
    assert logs[:, 1] == pytest.approx(encoder.noise.log_probability(noise) - math.log(256))


def test_shares_outside_the_group_are_noticed() -> None:
    encoder = Shares(dimension=2, shares=2, bits=4, noise=Skellam(1.0))
    shares = np.zeros((3, 2, 2), np.uint32)
    shares[1, 0, 1] = 16
    assert encoder.check({"": shares}).tolist() == [True, False, True]


def test_totals_come_back_with_their_sign() -> None:
    encoder = Shares(dimension=1, shares=2, bits=10, noise=Skellam(1.0))
    assert encoder.centred(np.array([511, 512, -1, 1023, -512, 5 + 3 * 1024])).tolist() == [511, -512, -1, -1, -512, 5]


def test_too_few_users_are_refused_with_the_inequality() -> None:
    with pytest.raises(BadInput, match="n >= 19 fails: 18 users"):
        shares_needed(30, 30, 18)
    with pytest.raises(BadInput, match="n >= 19 fails"):
        security_of(5, 30, 10)
    assert security_of(shares_needed(30, 30, 1000), 30, 1000) >= 30
    assert shares_needed(40, 32, 10**5) == math.ceil((80 + 32) / (math.log2(10**5) - math.log2(math.e))) + 2
