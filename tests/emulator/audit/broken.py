"""A small real protocol, and what goes wrong with it on purpose: no noise, half the noise, float noise, fresh noise."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Analyst, Ask, Claim, Estimate, Interaction, Protocol, Send, Sends, sends
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, Randomizer, Shape
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.node_memory import Commit
from parley.emulator.wire.messages import Message, Reminder
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.randomizers.vectors.codebook import Codebook

EPSILON = 1.0
LEVELS = 5


@dataclass(frozen=True, kw_only=True)
class Delegating(Randomizer):
    """Declares one law and sends something else."""

    declared: Randomizer
    actual: Callable[[Floats, Coins], Columns]

    @property
    def epsilon(self) -> float:  # type: ignore[override]
        return self.declared.epsilon

    @property
    def coins(self) -> int:
        return self.declared.coins

    @property
    def reply(self) -> Shape:
        return self.declared.reply

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        return self.actual(inputs, coins)

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        return self.declared.check(reply)

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        return self.declared.log_likelihood(reply, inputs)

    def decode(self, reply: Columns) -> Floats:
        return self.declared.decode(reply)

    def total(self, reply: Columns) -> Integers:
        return self.declared.total(reply)

    @property
    def unit(self) -> float:
        return self.declared.unit

    @property
    def offset(self) -> float:
        return self.declared.offset

    @property
    def variance(self) -> float:
        return self.declared.variance


@dataclass(frozen=True, kw_only=True)
class FloatLaplace(Randomizer):
    """A float Laplace draw added to a float, as nobody should do it (Mironov 2012)."""

    epsilon: float
    coins: ClassVar[int] = 8
    reply: ClassVar[Shape] = {"value": (np.dtype(np.float64), ())}
    unit: ClassVar[float] = 2.0**-20
    variance: ClassVar[float] = 2.0

    def sample(self, inputs: Floats, coins: Coins) -> Columns:
        uniform = (np.ascontiguousarray(coins).view("<u8")[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        centred = uniform - 0.5
        noise = -np.sign(centred) * np.log1p(-2 * np.abs(centred)) / self.epsilon
        return {"value": np.clip(inputs + noise, -1e3, 1e3)}

    def check(self, reply: Columns) -> NDArray[np.bool_]:
        return np.ones(len(reply["value"]), np.bool_)

    def log_likelihood(self, reply: Columns, inputs: Floats) -> Floats:
        values = reply["value"].astype(np.float64)
        logs: Floats = -self.epsilon * np.abs(values[:, None] - inputs[None, :])
        return logs

    def decode(self, reply: Columns) -> Floats:
        return reply["value"].astype(np.float64)

    def total(self, reply: Columns) -> Integers:
        return np.array(np.rint(reply["value"].astype(np.float64) / self.unit).sum(), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Mean(Protocol):
    """The mean level in `asked` rounds of the same randomizer; it promises `promised`."""

    name: ClassVar[str] = "mean"
    inputs: ClassVar[int] = LEVELS
    randomizer: Randomizer = field(repr=False)
    promised: float = EPSILON
    asked: int = 1
    interaction: Interaction = "non-interactive"

    @property
    def claim(self) -> Claim:
        return Claim(epsilon=self.promised, rounds=self.asked, interaction=self.interaction)

    @sends
    def ask(self) -> Sends:
        """Everybody's level, scaled to [0, 1], through one randomizer; with a vector, a direction instead."""
        places = np.arange(LEVELS) / (LEVELS - 1)
        vectors = np.stack([np.cos(3 * places), np.sin(3 * places)], axis=1)
        return {"level": Send(self.randomizer, vectors if "seed" in self.randomizer.reply else places)}

    @property
    def script(self) -> Any:
        return (Mean.ask,) * self.asked

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def analyst(self) -> Analyst:
        heard = []
        for _ in range(self.asked):
            heard.append((yield Ask(self.ask)))
        mean = float(np.sum(heard[0].sum("level"))) * self.randomizer.unit / heard[0].replies
        return Estimate(value=mean, predicted_rmse=1.0, interval95=(mean - 1, mean + 1))


def laplace(epsilon: float = EPSILON) -> GridLaplace:
    return GridLaplace(low=0.0, high=1.0, epsilon=epsilon)


def one_bit(epsilon: float = EPSILON) -> OneBit:
    return OneBit(low=0.0, high=1.0, epsilon=epsilon)


def codebook(epsilon: float = EPSILON) -> Codebook:
    return Codebook(dimension=2, radius=1.0, epsilon=epsilon, candidates=8)


HONEST: dict[str, Callable[[float], Randomizer]] = {"laplace": laplace, "one-bit": one_bit, "codebook": codebook}


def half_noise(name: str) -> Randomizer:
    """Declares epsilon and draws with twice as much of it."""
    make = HONEST[name]
    return Delegating(declared=make(EPSILON), actual=make(2 * EPSILON).sample)


def no_noise(name: str) -> Randomizer:
    """Declares a law and always sends its likeliest outcome."""
    make = HONEST[name]
    quiet = make(16.0 if name == "laplace" else 30.0)
    declared = make(EPSILON)
    if not isinstance(declared, GridLaplace):
        return Delegating(declared=declared, actual=quiet.sample)
    unit = declared.unit
    return Delegating(declared=declared, actual=lambda inputs, coins: {"step": np.rint(inputs / unit).astype(np.int32)})


class Forgetful(CohortRole):
    """Draws fresh noise when it is asked to send again."""

    def _again(self, reminder: Reminder) -> Iterator[Message | Commit]:
        self._speakers = replace(self._speakers, key=key_from_seed(99))
        return super()._again(reminder)


def builder(protocol: Protocol) -> Callable[[str, Mapping[str, Any]], Protocol]:
    return lambda name, parameters: protocol
