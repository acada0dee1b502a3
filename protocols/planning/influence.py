"""How far one reply can move the estimate: a crafted one, and one that only lies about the input.

Local privacy means that nobody can tell a lie from noise, and the noise is undone by stretching every reply. So a user
who sends the reply that the analyst stretches furthest moves the estimate further than one who hides another input.

The estimate is a function of the mean of the decoded replies. Its slope is a central difference, which is exact for
estimates that are linear or quadratic in that mean, at a run whose tallies are drawn for a public guess of the
histogram. From it follow, for the last round in which users speak,

    crafted = (largest - smallest slope' decode(r) over all replies r) / replies
    lie     = (largest - smallest slope' E[decode | x] over all inputs x) / replies
"""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis, Protocol, Send
from parley.emulator.randomizer import Floats, Integers, Randomizer
from parley.emulator.round import Round, Tally, group_sizes
from parley.protocols.planning import fast_simulation
from parley.protocols.planning.planning import assumed_histograms
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.vectors.directional import Directional
from parley.protocols.tuned.codebook_round import CodebookRound
from parley.protocols.tuned.one_round_tuned import OneRoundTuned
from parley.protocols.tuned.two_round_tuned import TwoRoundTuned
from parley.protocols.workloads.workload import Levels

SEED = 13
# The step of the central difference, as a share of the replies.
SHARE = 0.01


@dataclass(frozen=True, kw_only=True)
class Influence:
    """The most that one reply in the last round moves the estimate, and the most that a lie about the input does."""

    crafted: float
    lie: float

    @property
    def ratio(self) -> float:
        return self.crafted / self.lie if self.lie else float("inf")


def influence(protocol: Protocol, users: int, histogram: Floats | None = None) -> Influence:
    """Of one reply among so many users; BadInput for protocols whose replies nobody has worked that out for."""
    if histogram is None:
        question = getattr(protocol, "workload", Levels((protocol.inputs,)))
        histogram = next(iter(assumed_histograms(question).values()))
    generator = np.random.default_rng(SEED)
    counts = np.diff(np.rint(np.cumsum(histogram) * users), prepend=0.0).astype(np.int64)
    if isinstance(protocol, OneRoundTuned):
        return _of_codebook(protocol, users, histogram)
    heard: list[Tally] = []
    analysis = Analysis(protocol)
    said: Any = analysis.open()
    sizes = group_sizes(protocol, 0, users)
    for step, speaking in zip(
        protocol.rounds, fast_simulation.speakers(protocol, counts, sizes, generator), strict=True
    ):
        last, asked = step, said
        heard.append(fast_simulation.tally(step, said, speaking, generator))
        said = analysis.hear(said, heard[-1])
    if isinstance(protocol, TwoRoundTuned) and asked["again"]:
        return _of_codebook(protocol, users, histogram)
    crafted = lie = 0.0
    replies = max(1, heard[-1].replies)
    for name, send in last.sends(asked).items():
        slope = _slope(protocol, heard, last, name, send)
        crafted += reach(send.randomizer, slope) / replies
        lie += _expected_reach(send, slope, protocol.inputs) / replies
    return Influence(crafted=crafted, lie=lie)


def _of_codebook(protocol: CodebookRound, users: int, histogram: Floats) -> Influence:
    """t1 is a mean of what each reply says about h along the gradient: H^-1 r(seed, index), reply by reply."""
    decoder, gradient = protocol.decoder, protocol.objective.at(histogram).gradient
    carried = (decoder.inverse @ (decoder.likelihood.T / decoder.even)).T @ gradient
    return Influence(crafted=float(np.ptp(carried)) / users, lie=float(np.ptp(gradient)) / users)


def _slope(protocol: Protocol, heard: list[Tally], last: Round, name: str, send: Send) -> Floats:
    """The derivative of the estimate by each coordinate of the last round's mean under this name."""
    sums, unit = heard[-1].sums[name], send.randomizer.unit
    step = max(1, round(SHARE * heard[-1].replies * _spread(send) / unit))
    slope = np.zeros(sums.shape)
    every = send.randomizer.every_reply()
    reached = np.ones(sums.shape, bool) if every is None else (send.randomizer.decode(every) != 0).any(axis=0)
    # Coordinates that no reply touches have no slope that matters.
    for place in map(tuple, np.argwhere(reached)):
        ends = []
        for sign in (1, -1):
            moved = sums.copy()
            moved[place] += sign * step
            ends.append(_replayed(protocol, [*heard[:-1], Tally(heard[-1].replies, {**heard[-1].sums, name: moved})]))
        slope[place] = (ends[0] - ends[1]) / (2 * step * unit / heard[-1].replies)
    return slope


def _replayed(protocol: Protocol, heard: list[Tally]) -> float:
    """The estimate of an analyst who hears these tallies."""
    analysis = Analysis(protocol)
    said: Any = analysis.open()
    for each in heard:
        said = analysis.hear(said, each)
    return float(said.value)


def _spread(send: Send) -> float:
    """How large decoded values are, roughly: what a step is measured in."""
    return float(np.sqrt(send.randomizer.variance))


def _expected_reach(send: Send, slope: Floats, inputs: int) -> float:
    """What is expected of a reply: its mean over all replies, or the value it hides, because decoders are unbiased."""
    values = np.asarray(send.at(np.arange(inputs)))
    every = send.randomizer.every_reply()
    if every is not None:
        chances = np.exp(send.randomizer.log_likelihood(every, values))
        decoded = send.randomizer.decode(every)
        return float(np.ptp(_along(decoded, slope) @ chances))
    if slope.ndim and values.ndim == 1:
        # Categories: the value is the index of the one coordinate that is 1.
        return float(np.ptp(slope[values.astype(np.int64)]))
    return float(np.ptp(values @ slope if slope.ndim else values * slope))


@singledispatch
def reach(randomizer: Randomizer, slope: Floats) -> float:
    """The largest minus the smallest slope' decode(reply), over all replies that the analyst accepts."""
    every = randomizer.every_reply()
    if every is None:
        raise BadInput(f"nobody has worked out how far a reply of {type(randomizer).__name__} reaches")
    return float(np.ptp(_along(randomizer.decode(every), slope)))


def _along(decoded: Floats, slope: Floats) -> Floats:
    """slope' decode(r) for each reply r."""
    return np.asarray(decoded.reshape(len(decoded), -1) @ slope.reshape(-1))


@reach.register
def _(randomizer: GridLaplace, slope: Floats) -> float:
    least, most = randomizer.outcomes
    return float(abs(slope) * (most - least) * randomizer.unit)


@reach.register
def _(randomizer: OptimisedUnaryEncoding, slope: Floats) -> float:
    return float(np.abs(slope).sum() * randomizer.unit)


@reach.register
def _(randomizer: SubsetSelection, slope: Floats) -> float:
    """The sets of the largest and of the smallest entries."""
    ordered: Integers | Floats = np.sort(slope)
    return float((ordered[-randomizer.width :].sum() - ordered[: randomizer.width].sum()) * randomizer.unit)


@reach.register
def _(randomizer: Directional, slope: Floats) -> float:
    """At most: replies lie on a sphere, and one of them may point along the slope."""
    return float(2 * np.linalg.norm(slope) * randomizer.moments.scale)
