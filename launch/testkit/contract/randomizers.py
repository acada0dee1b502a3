"""What every local randomizer has to pass. A randomizer's tests inherit this class and say what its replies are.

Exact checks come first: probabilities add up, integer weights keep the ratio, expectations are unbiased. Then
invariance under sharding, then one statistical test at alpha = 1e-6 with a fixed seed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from parley.emulator.errors import BadInput
from parley.emulator.protocol import check_arrays
from parley.emulator.randomizer import MOST_OUTCOMES, Coins, Columns, Floats, Randomizer
from parley.launch.testkit.contract.laws import ALPHA, chi_square, keys
from parley.protocols.randomizers.exact import exponential_lower

DRAWS = 20_000
COMMON_BAD: tuple[Mapping[str, Any], ...] = tuple(
    {"epsilon": value} for value in (0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e9)
)


def within(numerator: int, denominator: int, epsilon: float) -> bool:
    """Whether numerator <= e^epsilon * denominator, decided by integers; never true by mistake."""
    bound = exponential_lower(Fraction(epsilon))
    return numerator * bound.denominator <= bound.numerator * denominator


@contextmanager
def refused(word: str = "") -> Iterator[None]:
    """What is done inside must be refused, with this word in the reason."""
    reason = None
    try:
        yield
    except BadInput as error:
        reason = str(error)
    assert reason is not None, "it was not refused"
    assert word in reason, f"refused, but not because of {word}: {reason}"


def rows(reply: Columns, part: slice) -> Columns:
    """Some rows of every column."""
    return {name: column[part] for name, column in reply.items()}


def random_coins(randomizer: Randomizer, count: int, seed: int) -> Coins:
    """A coin matrix of the right width."""
    return np.random.default_rng(seed).integers(0, 256, (count, randomizer.coins), dtype=np.uint8)


class RandomizerContract(ABC):
    """Inherit, name the class `Test...` and implement the abstract methods."""

    # The bytes of a coin row that make a public seed; fixed where a law is conditional on it.
    seed_bytes = slice(0)
    # Absolute slack of exact expectations, in units of the decoded value's standard deviation.
    bias = 1e-9

    @abstractmethod
    def randomizers(self) -> Sequence[Randomizer]:
        """Instances to test."""

    @abstractmethod
    def inputs(self, randomizer: Any) -> NDArray[Any]:
        """Some inputs, extreme ones among them."""

    @abstractmethod
    def expected(self, randomizer: Any, inputs: NDArray[Any]) -> Floats:
        """What the inputs' decoded replies are in the mean."""

    @abstractmethod
    def outcomes(self, randomizer: Any) -> Iterable[Columns]:
        """All replies; with a public seed, all replies for each of several seeds."""

    @abstractmethod
    def weights(self, randomizer: Any) -> Iterable[Sequence[int]]:
        """For each reply the integers its probabilities under the extreme inputs are proportional to."""

    @abstractmethod
    def bad_parameters(self) -> Sequence[Mapping[str, Any]]:
        """Changes to the first instance's parameters that must be refused."""

    @abstractmethod
    def bad_inputs(self, randomizer: Any) -> Sequence[NDArray[Any]]:
        """Inputs that must be refused."""

    def log_probability(self, randomizer: Any, reply: Columns, inputs: NDArray[Any]) -> Floats:
        """log p(reply | input) without any term left out."""
        return np.asarray(randomizer.log_likelihood(reply, inputs))

    def test_probabilities_sum_to_one(self) -> None:
        for randomizer in self.randomizers():
            inputs = self.inputs(randomizer)
            for space in self.outcomes(randomizer):
                sums = np.exp(self.log_probability(randomizer, space, inputs)).sum(axis=0)
                np.testing.assert_allclose(sums, 1.0, rtol=0, atol=1e-11)

    def test_every_reply_is_listed_where_they_are_few(self) -> None:
        for randomizer in self.randomizers():
            listed = randomizer.every_reply()
            if any(name == "seed" for name in randomizer.reply):
                assert listed is None, randomizer
                continue
            spaces = list(self.outcomes(randomizer))
            if len(spaces) > 1 or len(next(iter(spaces[0].values()))) > MOST_OUTCOMES:
                assert listed is None, randomizer
            elif listed is not None:
                for name, column in spaces[0].items():
                    np.testing.assert_array_equal(listed[name], column)
                    assert listed[name].dtype == column.dtype

    def test_the_law_of_all_choices_is_their_likelihoods(self) -> None:
        for randomizer in self.randomizers():
            if randomizer.alphabet is None or randomizer.public:
                continue
            inputs = np.asarray(self.inputs(randomizer))
            reply = randomizer.sample(inputs[np.arange(20) % len(inputs)], random_coins(randomizer, 20, 5))
            for row in range(len(inputs)):
                value = inputs[row : row + 1]
                listed = Randomizer.log_law(randomizer, reply, value)
                assert np.array_equal(randomizer.log_law(reply, value), listed)

    def test_the_enumerated_loss_is_at_most_epsilon(self) -> None:
        for randomizer in self.randomizers():
            for space in self.outcomes(randomizer):
                logs = randomizer.log_likelihood(space, self.inputs(randomizer))
                assert (logs.max(axis=1) - logs.min(axis=1)).max() <= randomizer.epsilon

    def test_integer_weights_keep_the_ratio_exactly(self) -> None:
        for randomizer in self.randomizers():
            for weights in self.weights(randomizer):
                assert within(max(weights), min(weights), randomizer.epsilon), (randomizer, weights)

    def test_decoding_is_unbiased(self) -> None:
        """Exactly, or exactly given the seed and then by a t-test over seeds."""
        for randomizer in self.randomizers():
            inputs = self.inputs(randomizer)
            means = []
            for space in self.outcomes(randomizer):
                pmf = np.exp(self.log_probability(randomizer, space, inputs))
                means.append(np.tensordot(pmf, randomizer.decode(space), axes=(0, 0)))
            stack = np.array(means)
            gap = np.abs(stack.mean(axis=0) - self.expected(randomizer, inputs))
            slack = self.bias * randomizer.variance**0.5
            if len(stack) > 1:
                slack = slack + t.isf(ALPHA / gap.size, len(stack) - 1) * stack.std(axis=0, ddof=1) / len(stack) ** 0.5
            assert (gap <= slack).all(), (randomizer, float(gap.max()), float(np.max(slack)))

    def test_samples_follow_the_likelihood(self) -> None:
        for randomizer in self.randomizers():
            if randomizer.epsilon > 8.0:
                # So few replies deviate then that no affordable number of draws shows any.
                continue
            space = next(iter(self.outcomes(randomizer)))
            coins = random_coins(randomizer, DRAWS, 7)
            if "seed" in space:
                coins[:, self.seed_bytes] = np.array([space["seed"][0]], dtype="<u8").view(np.uint8)
            for number, x in enumerate(self.inputs(randomizer)[:3]):
                reply = randomizer.sample(np.repeat(x[None], DRAWS, axis=0), coins)
                pmf = np.exp(self.log_probability(randomizer, space, x[None]))[:, 0]
                statistic, threshold = chi_square(self.count(space, reply), DRAWS * pmf)
                assert statistic <= threshold, (randomizer, number, DRAWS, statistic, threshold)

    def count(self, space: Columns, reply: Columns) -> NDArray[np.int64]:
        """How often each outcome was drawn; an outcome outside the space is an error."""
        known, drawn = (keys(each, len(next(iter(each.values())))) for each in (space, reply))
        place = {key: number for number, key in enumerate(known.tolist())}
        return np.bincount([place[key] for key in drawn.tolist()], minlength=len(known))

    def test_a_reply_depends_on_its_own_row_alone(self) -> None:
        for randomizer in self.randomizers():
            inputs = np.repeat(self.inputs(randomizer), 9, axis=0)
            coins = random_coins(randomizer, len(inputs), 11)
            whole = randomizer.sample(inputs, coins)
            cut = len(inputs) // 3
            halves = [randomizer.sample(inputs[part], coins[part]) for part in (slice(0, cut), slice(cut, None))]
            for name, column in whole.items():
                np.testing.assert_array_equal(column, np.concatenate([half[name] for half in halves]))
            sums = sum(randomizer.total(rows(whole, part)) for part in (slice(0, cut), slice(cut, None)))
            np.testing.assert_array_equal(sums, randomizer.total(whole))

    def test_total_is_the_sum_of_decoded_replies(self) -> None:
        for randomizer in self.randomizers():
            inputs = np.repeat(self.inputs(randomizer), 40, axis=0)
            reply = randomizer.sample(inputs, random_coins(randomizer, len(inputs), 13))
            total = randomizer.total(reply)
            assert total.dtype == np.int64
            decoded = randomizer.decode(reply)
            size = np.abs(decoded).sum(axis=0).max() + 1e-300
            gap = randomizer.unit * total + randomizer.offset * len(inputs) - decoded.sum(axis=0)
            assert np.abs(gap).max() <= 1e-11 * size

    def test_replies_have_the_declared_shape_and_pass_the_check(self) -> None:
        for randomizer in self.randomizers():
            inputs = self.inputs(randomizer)
            reply = randomizer.sample(inputs, random_coins(randomizer, len(inputs), 17))
            check_arrays("reply", reply, randomizer.reply, rows=len(inputs))
            assert randomizer.check(reply).all()
            empty = randomizer.sample(inputs[:0], random_coins(randomizer, 0, 17))
            check_arrays("reply", empty, randomizer.reply, rows=0)
            assert not np.any(randomizer.total(empty))

    def test_bad_parameters_are_refused(self) -> None:
        first = self.randomizers()[0]
        good = {field.name: getattr(first, field.name) for field in fields(first)}  # type: ignore[arg-type]
        for change in (*COMMON_BAD, *self.bad_parameters()):
            with refused():
                type(first)(**{**good, **change})

    def test_bad_inputs_and_coins_are_refused(self) -> None:
        randomizer = self.randomizers()[0]
        for inputs in self.bad_inputs(randomizer):
            with refused():
                randomizer.sample(inputs, random_coins(randomizer, len(inputs), 19))
        good = self.inputs(randomizer)
        with refused("coins"):
            randomizer.sample(good, random_coins(randomizer, len(good), 19)[:, :-1])
