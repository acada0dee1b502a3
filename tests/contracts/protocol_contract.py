"""What every registered protocol owes: its tests inherit this suite and say on which problem.

    class TestThreeRound(ProtocolContract):
        protocol = "three-round"

What anybody's protocol owes is `parley.testing.ProtocolContract`, which it inherits itself. Here stands what a protocol
that comes with Parley owes besides: a name, a stated guarantee, a prediction that is neither too low nor too high.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import norm

from parley import testing
from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import coins, key_from_seed, nonce_from_key, question_of, terms_of
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis, Broadcast, Estimate, Inputs, Protocol, check_arrays
from parley.emulator.randomizer import Columns, Floats
from parley.emulator.simulate import conversation, simulate
from parley.emulator.wire.messages import Announce, Replies
from parley.launch.testkit.contract.exact import setup_for
from parley.launch.testkit.contract.laws import ALPHA
from parley.launch.testkit.target import Case
from parley.protocols import registry
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.synthetic import draw

SIGMAS = float(norm.isf(ALPHA / 2))
NONSENSE: tuple[Any, ...] = (None, math.nan, -1, "?", [], {"a": 1}, True, 2.5, 10**18)


def estimate(protocol: Protocol, inputs: Inputs, key: bytes) -> Estimate:
    """A run without messages: the rounds' functions called one after the other."""
    analysis = Analysis(protocol)
    # As the analyst does: the last bits depend on the number of threads.
    with one_thread():
        conclusion: Broadcast | Estimate = analysis.open()
    users, terms = np.arange(len(inputs)), terms_of(setup_for(protocol, nonce_from_key(key)))
    for number, step in enumerate(protocol.rounds, 1):
        assert not isinstance(conclusion, Estimate)
        speaking = step.participates(users)
        question = question_of(terms, Announce(run="test", round=number, broadcast=conclusion))
        flips = coins(key, question, 0, len(inputs), step.coins)[speaking]
        replies = step.respond(conclusion, inputs[speaking], flips, users[speaking])
        tally = step.tally(conclusion, step.complete(conclusion, users[speaking], replies))
        with one_thread():
            conclusion = analysis.hear(conclusion, tally)
    assert isinstance(conclusion, Estimate)
    return conclusion


class ProtocolContract(testing.ProtocolContract):
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

    @cached_property
    def case(self) -> Case:
        return Case(protocol=self.made, question=self.workload, flags=(), epsilon=self.epsilon, users=self.users)

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
            step = self.made.rounds[number - 1]
            total[spoke] += step.log_likelihood(broadcast, step.complete(broadcast, spoke, columns))
        return total

    def test_it_is_registered_under_its_name(self) -> None:
        assert self.protocol in registry.names()
        assert self.made.name == self.protocol
        assert registry.lookup(self.protocol).summary

    def test_it_says_what_it_guarantees(self) -> None:
        assert "Formal guarantee:" in (type(self.made).__doc__ or "")

    def test_rounds_and_budget_are_as_claimed(self) -> None:
        claim = self.made.claim
        assert claim.rounds == len({number for number, *_ in self.rounds_played(50)})
        assert (claim.interaction == "non-interactive") == (claim.rounds == 1)
        assert claim.epsilon == self.epsilon

    def test_opening_and_replies_have_the_declared_shape(self) -> None:
        for number, broadcast, spoke, columns in self.rounds_played(60):
            step = self.made.rounds[number - 1]
            check_arrays("broadcast", broadcast, step.broadcast)
            check_arrays("replies", columns, step.reply, len(spoke))
            assert step.check(broadcast, step.complete(broadcast, spoke, columns)).all()

    def test_nonsense_parameters_are_refused(self) -> None:
        parameters = dict(self.made.parameters())
        for name in sorted(set(parameters) - set(self.lenient)):
            for value in NONSENSE:
                if (value == 2.5 and type(parameters[name]) is float) or (name in self.flags and value in (None, True)):
                    continue
                with pytest.raises(BadInput):
                    registry.build(self.protocol, {**parameters, name: value})

    def test_accuracy(self) -> None:
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

    def test_a_run_without_messages_says_the_same(self) -> None:
        inputs, key = self.inputs[:300], key_from_seed(4)
        alone, said = estimate(self.made, inputs, key), simulate(self.made, inputs, key)
        assert (alone.value, alone.predicted_rmse) == (said.estimate, said.predicted_rmse)

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
