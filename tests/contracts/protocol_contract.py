"""What every registered protocol owes: its tests inherit this suite and say on which problem.

    class TestThreeRound(ProtocolContract):
        protocol = "three-round"

Exact checks come first (rounds, codec, sharding, enumerated loss), statistical ones last, with fixed seeds and
the probability ALPHA of a false alarm.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import norm

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import addressed, coins, key_from_seed, nonce_from_key, question_of, terms_of
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Inputs, Protocol, check_arrays
from parley.emulator.randomizer import MOST_OUTCOMES, Columns, Floats, row_bytes
from parley.emulator.roles.consent import domain_of
from parley.emulator.simulate import conversation, simulate
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.messages import Announce, Replies, Setup
from parley.protocols import registry
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.synthetic import draw

ALPHA = 1e-6
SIGMAS = float(norm.isf(ALPHA / 2))
PARTS = ((0, 1), (1, 40), (40, 90))
NONSENSE: tuple[Any, ...] = (None, math.nan, -1, "?", [], {"a": 1}, True, 2.5, 10**18)


def setup_for(protocol: Protocol, key: bytes) -> Setup:
    """What the analyst of an experiment with this key says first."""
    claim = protocol.claim
    return Setup(
        run="contract",
        protocol=protocol.name,
        parameters=protocol.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        version=protocol.version,
        domain=domain_of(protocol.inputs),
        nonce=nonce_from_key(key),
    )


def estimate(protocol: Protocol, inputs: Inputs, key: bytes) -> Estimate:
    """A run without messages: the rounds' functions called one after the other."""
    analysis = Analysis(protocol)
    # As the analyst does: the last bits depend on the number of threads.
    with one_thread():
        conclusion: Broadcast | Estimate = analysis.open()
    users, terms = np.arange(len(inputs)), terms_of(setup_for(protocol, key))
    for number, step in enumerate(protocol.rounds, 1):
        assert not isinstance(conclusion, Estimate)
        speaking = step.participates(users)
        question = question_of(terms, Announce(run="contract", round=number, broadcast=conclusion))
        flips = coins(key, question, 0, len(inputs), step.coins)[speaking]
        replies = step.respond(conclusion, inputs[speaking], flips)
        tally = step.tally(conclusion, replies)
        with one_thread():
            conclusion = analysis.hear(conclusion, tally)
    assert isinstance(conclusion, Estimate)
    return conclusion


class ProtocolContract:
    """Inherit, set `protocol`, and where the defaults do not suit the rest."""

    protocol: ClassVar[str]
    workload: ClassVar[Any] = Kendall(levels=(3, 3))
    data: ClassVar[str] = "correlated"
    epsilon: ClassVar[float] = 1.0
    users: ClassVar[int] = 2000
    trials: ClassVar[int] = 200
    # How far measured RMSE may be from the predicted one, besides chance; and how much bias is part of the design.
    ratio: ClassVar[tuple[float, float]] = (0.85, 1.15)
    bias: ClassVar[float] = 0.0
    # Parameters for which some other value than the given one makes sense too are left out of the nonsense test.
    lenient: ClassVar[tuple[str, ...]] = ()
    # Parameters that are true or missing, as in older records.
    flags: ClassVar[tuple[str, ...]] = ()

    def make(self) -> Protocol:
        return registry.design(self.protocol, self.workload, epsilon=self.epsilon, users=self.users)

    def truth(self, protocol: Protocol, inputs: Inputs) -> float:
        """What the estimate is compared with."""
        return float(self.workload.exact(inputs))

    def predicted(self, protocol: Any, inputs: Inputs) -> float:
        """The RMSE that the protocol predicts for these inputs."""
        histogram = np.bincount(inputs, minlength=protocol.inputs) / len(inputs)
        return float(protocol.predicted_rmse(histogram))

    @cached_property
    def made(self) -> Protocol:
        return self.make()

    @cached_property
    def inputs(self) -> Inputs:
        return draw(self.data, self.workload, self.users, np.random.default_rng(20))

    def rounds_played(self, users: int) -> Iterator[tuple[int, Broadcast, Inputs, Columns]]:
        """Round, broadcast, users who spoke and their replies."""
        broadcast: Broadcast = {}
        for _, message in conversation(self.made, self.inputs[:users], key_from_seed(1)):
            if isinstance(message, Announce):
                broadcast = message.broadcast
            if isinstance(message, Replies):
                yield message.round, broadcast, message.users, message.columns

    def losses(self, users: int) -> Floats:
        """Summed exact log-likelihoods of each user's messages under all k inputs."""
        total = np.zeros((users, self.made.inputs))
        for number, broadcast, spoke, columns in self.rounds_played(users):
            total[spoke] += self.made.rounds[number - 1].log_likelihood(broadcast, columns)
        return total

    def test_it_is_registered_under_its_name(self) -> None:
        assert self.protocol in registry.names()
        assert self.made.name == self.protocol
        assert registry.lookup(self.protocol).summary

    def test_it_says_what_it_guarantees(self) -> None:
        assert "Formal guarantee:" in (type(self.made).__doc__ or "")

    def test_rounds_and_budget_are_as_claimed(self) -> None:
        claim = self.made.claim
        assert claim.rounds == len(self.made.rounds) == len({number for number, *_ in self.rounds_played(50)})
        assert (claim.interaction == "non-interactive") == (claim.rounds == 1)
        assert claim.epsilon == self.epsilon

    def test_opening_and_replies_have_the_declared_shape(self) -> None:
        for number, broadcast, spoke, columns in self.rounds_played(60):
            step = self.made.rounds[number - 1]
            check_arrays("broadcast", broadcast, step.broadcast)
            check_arrays("replies", columns, step.reply, len(spoke))
            assert step.check(broadcast, columns).all()

    def test_a_stranger_rebuilds_it_from_the_setup(self) -> None:
        frame = encode(setup_for(self.made, key_from_seed(2)))
        heard = decode(frame)
        assert isinstance(heard, Setup)
        built = registry.build(heard.protocol, heard.parameters)
        assert (built.claim, built.version, built.inputs) == (self.made.claim, self.made.version, self.made.inputs)
        step, again = self.made.rounds[0], built.rounds[0]
        flips = addressed(key_from_seed(2), 1, 0, 30, step.coins)
        ours = step.respond(Analysis(self.made).open(), self.inputs[:30], flips)
        theirs = again.respond(Analysis(built).open(), self.inputs[:30], flips)
        assert {name: column.tobytes() for name, column in ours.items()} == {
            name: column.tobytes() for name, column in theirs.items()
        }
        copy = Setup(**{**vars(heard), "parameters": built.parameters()})
        assert encode(copy) == frame

    def test_missing_and_unknown_parameters_are_refused(self) -> None:
        parameters = dict(self.made.parameters())
        with pytest.raises(BadInput):
            registry.build(self.protocol, {**parameters, "surprise": 1})
        for name in set(parameters) - set(self.flags):
            with pytest.raises(BadInput):
                registry.build(self.protocol, {key: value for key, value in parameters.items() if key != name})

    def test_nonsense_parameters_are_refused(self) -> None:
        parameters = dict(self.made.parameters())
        for name in sorted(set(parameters) - set(self.lenient)):
            for value in NONSENSE:
                if (value == 2.5 and type(parameters[name]) is float) or (name in self.flags and value in (None, True)):
                    continue
                with pytest.raises(BadInput):
                    registry.build(self.protocol, {**parameters, name: value})

    def test_every_user_loses_at_most_epsilon(self) -> None:
        total = self.losses(min(self.users, 400))
        loss = total.max(axis=1) - total.min(axis=1)
        assert float(loss.max()) <= self.epsilon + 1e-9, f"loss {loss.max()} above {self.epsilon}"
        assert float(loss.max()) > 0

    def test_likelihoods_are_those_of_the_sampler(self) -> None:
        """E[p(reply | x') / p(reply | x)] = 1 when replies are drawn under x: each round, for every x'."""
        for number, broadcast, spoke, columns in self.rounds_played(self.users):
            log = self.made.rounds[number - 1].log_likelihood(broadcast, columns)
            own = np.take_along_axis(log, self.inputs[spoke][:, None], axis=1)
            ratios = np.exp(log - own)
            error = ratios.std(axis=0) / math.sqrt(len(spoke))
            bound = float(norm.isf(ALPHA / ratios.shape[1] / 2)) * error + 1e-9
            worst = int(np.argmax(np.abs(ratios.mean(axis=0) - 1) - bound))
            assert abs(ratios[:, worst].mean() - 1) <= bound[worst], (
                f"round {number}, input {worst}, n {len(spoke)}: {ratios[:, worst].mean()} +- {bound[worst]}"
            )

    def log_common(self, public: Broadcast, outcomes: Columns) -> Floats | float:
        """What the likelihood of each reply leaves out because it is the same for every input."""
        return 0.0

    def test_listed_replies_are_all_there_are(self) -> None:
        """Each is possible and there once; under every input their probabilities add up to 1."""
        for number, broadcast, _, columns in self.rounds_played(60):
            step = self.made.rounds[number - 1]
            outcomes = step.outcomes(broadcast)
            if outcomes is None:
                continue
            many = len(next(iter(outcomes.values())))
            assert many <= MOST_OUTCOMES
            check_arrays("outcomes", outcomes, step.reply, many)
            assert step.check(broadcast, outcomes).all()
            listed = [row.tobytes() for row in row_bytes(outcomes, many)]
            assert len(set(listed)) == many
            assert {row.tobytes() for row in row_bytes(columns, len(next(iter(columns.values()))))} <= set(listed)
            log = step.log_likelihood(broadcast, outcomes) + np.reshape(self.log_common(broadcast, outcomes), (-1, 1))
            assert np.exp(log).sum(axis=0) == pytest.approx(1.0, abs=1e-12)
            assert step.epsilon is not None
            assert float(np.ptp(log, axis=1).max()) <= step.epsilon

    def test_replies_depend_on_their_own_row_alone(self) -> None:
        step, opening = self.made.rounds[0], Analysis(self.made).open()
        flips = addressed(key_from_seed(3), 1, 0, 50, step.coins)
        together = step.respond(opening, self.inputs[:50], flips)
        for part in (slice(0, 1), slice(7, 30), slice(30, 50)):
            apart = step.respond(opening, self.inputs[:50][part], flips[part])
            assert all(np.array_equal(apart[name], together[name][part]) for name in together)

    def test_nodes_and_chunks_change_nothing(self) -> None:
        inputs, key = self.inputs[:300], key_from_seed(4)
        results = [
            simulate(self.made, inputs, key, nodes=nodes, chunk=chunk) for nodes, chunk in ((1, 4096), (3, 64), (2, 7))
        ]
        assert len({encode(result) for result in results}) == 1
        alone = estimate(self.made, inputs, key)
        assert (alone.value, alone.predicted_rmse) == (results[0].estimate, results[0].predicted_rmse)

    def test_tallies_are_integers_that_add(self) -> None:
        step, opening = self.made.rounds[0], Analysis(self.made).open()
        replies = step.respond(opening, self.inputs[:90], addressed(key_from_seed(5), 1, 0, 90, step.coins))
        whole = step.tally(opening, replies)
        parts = [step.tally(opening, {name: column[a:b] for name, column in replies.items()}) for a, b in PARTS]
        added = parts[0] + parts[1] + parts[2]
        assert added.replies == whole.replies == 90
        for name, total in whole.sums.items():
            assert np.asarray(total).dtype == np.int64
            assert np.array_equal(added.sums[name], total)

    def test_estimates_are_unbiased_and_as_accurate_as_predicted(self) -> None:
        generator = np.random.default_rng(21)
        truth, predicted = self.truth(self.made, self.inputs), self.predicted(self.made, self.inputs)
        # Users who speak in some rounds only are a random group, so the order of the inputs is drawn each time.
        errors = np.array(
            [
                estimate(self.made, generator.permutation(self.inputs), key_from_seed(100 + trial)).value - truth
                for trial in range(self.trials)
            ]
        )
        spread = SIGMAS * errors.std(ddof=1) / math.sqrt(self.trials)
        assert abs(errors.mean()) <= spread + self.bias, f"bias {errors.mean()}, threshold {spread + self.bias}"
        squares = (errors / predicted) ** 2
        slack = SIGMAS * squares.std(ddof=1) / math.sqrt(self.trials)
        low, high = self.ratio[0] ** 2 - slack, self.ratio[1] ** 2 + slack
        assert low <= squares.mean() <= high, (
            f"measured over predicted RMSE is {math.sqrt(squares.mean()):.3f} in {self.trials} trials, "
            f"predicted {predicted:.4g}; the square should lie in [{low:.3f}, {high:.3f}]"
        )

    def test_the_estimate_is_finite_and_inside_its_interval(self) -> None:
        for users in (2, 3, len(self.inputs)):
            found = estimate(self.made, self.inputs[:users], key_from_seed(6))
            low, high = found.interval95
            assert math.isfinite(found.value)
            assert found.predicted_rmse > 0
            assert low <= found.value <= high

    def test_the_worst_histogram_is_no_better_than_this_one(self) -> None:
        assert self.predicted(self.made, self.inputs) <= self.worst() * (1 + 1e-6)

    def worst(self) -> float:
        """The RMSE predicted without knowing anything about the inputs."""
        protocol: Any = self.made
        return float(protocol.predicted_rmse())
