"""The law of what users send: every reply listed, the exact loss between every two inputs, and draws against the law.

Sends of a round have coins of their own, so replies to them are independent given the input, and the greatest loss of a
round between two inputs is the sum of the greatest losses of its sends.
"""

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.protocol import Send
from parley.emulator.randomizer import Coins, Columns, Floats, Integers, row_bytes
from parley.launch.testkit.contract.play import flips

ALPHA = 1e-6
# Replies that are looked at one by one.
MOST_LISTED = 1 << 17
MOST_CHOICES = 1 << 15
# Sums of probabilities may be off by their rounding, and so may a loss.
ROUNDING = 1e-9
LEAST_EXPECTED = 5.0
BINS = 32
MOST_USERS = 1 << 20
MOST_BYTES = 64
MOST_PAIRED = 10
MOST_CELLS = 512
# Numbers that are drawn or computed for one comparison.
MOST_WORK, LEAST_DRAWS = 1 << 24, 2000


@dataclass(frozen=True)
class Listing:
    """Replies to one send, in groups of equal size; within a group, the choices that are there are all listed."""

    replies: Columns
    group: int
    complete: bool
    how: str

    @property
    def count(self) -> int:
        return len(next(iter(self.replies.values())))


def listing(send: Send, generator: np.random.Generator, seeds: int) -> Listing:
    """Every reply; or every choice for some seeds, which hide nothing; or some replies that were drawn."""
    randomizer = send.randomizer
    every = randomizer.every_reply()
    if every is not None:
        count = len(next(iter(every.values())))
        return Listing(every, count, True, f"all {count} replies")
    alphabet = randomizer.alphabet
    if alphabet is None:
        many = max(1, seeds * 16 // send.inputs)
        drawn = draw(send, np.tile(np.arange(send.inputs), many), generator)
        return Listing(drawn, 1, False, f"{many * send.inputs} drawn replies")
    size = alphabet.size
    alone = {*randomizer.reply, *randomizer.public} == {alphabet.column}
    some = 1 if alone else max(1, min(seeds, MOST_LISTED // size))
    drawn = draw(send, np.zeros(some, dtype=np.int64), generator)
    listed = {name: np.repeat(column, size, axis=0) for name, column in drawn.items()}
    numbers = np.arange(alphabet.first, alphabet.last + 1)
    listed[alphabet.column] = np.tile(numbers, some).astype(drawn[alphabet.column].dtype)
    how = f"all {size} replies" if alone else f"all {size} choices for {some} seeds"
    return Listing(listed, size, alone, how)


def draw(send: Send, inputs: Integers, generator: np.random.Generator, coins: Coins | None = None) -> Columns:
    """One reply for each of these inputs, with the public columns of users of some numbers."""
    chance = flips(send.randomizer.coins, len(inputs), generator) if coins is None else coins
    if send.given is None:
        return send.randomizer.sample(send.at(inputs), chance)
    # Small numbers are as likely as large ones: the first users may be somebody.
    public = send.given((MOST_USERS ** generator.random(len(inputs))).astype(np.int64) - 1)
    values = np.column_stack([send.at(inputs), *public.values()]).astype(np.float64)
    return {**send.randomizer.sample(values, chance), **public}


def likelihoods(send: Send, replies: Columns) -> Floats:
    """log p(reply | x) for every input x."""
    with np.errstate(all="ignore"):
        return np.asarray(send.randomizer.log_likelihood(replies, send.at(np.arange(send.inputs))))


def largest_losses(log: Floats) -> Floats:
    """For every two inputs x and y the largest log p(r | x) / p(r | y) over the replies r that x can send."""
    inputs = log.shape[1]
    losses, by_input = np.zeros((inputs, inputs)), np.ascontiguousarray(log.T)
    with np.errstate(invalid="ignore"):
        for x, y in combinations(range(inputs), 2):
            # Where neither can send a reply the difference is not a number, and fmax and fmin pass over it.
            ratio = by_input[x] - by_input[y]
            losses[x, y], losses[y, x] = np.fmax.reduce(ratio), -np.fmin.reduce(ratio)
    # Of an input that can send none of these replies nothing is known.
    return np.fmax(losses, 0.0)


def sums(log: Floats, group: int) -> Floats:
    """The sum of the probabilities of each group of replies, for every input."""
    return np.asarray(np.exp(log).reshape(-1, group, log.shape[1]).sum(axis=1))


@dataclass(frozen=True)
class Comparison:
    """Draws against a law: a statistic, the largest value that chance allows, and what was compared."""

    statistic: float
    threshold: float
    draws: int
    how: str

    @property
    def agrees(self) -> bool:
        return self.statistic <= self.threshold


def chi_square(observed: NDArray[np.int64], expected: Floats, alpha: float = ALPHA) -> tuple[float, float]:
    """Pearson's statistic and its threshold, the rarest outcomes merged until each group expects 5 or more."""
    order = np.argsort(expected, kind="stable")
    due = expected[order]
    # Groups start at multiples of twice the least: outcomes are sorted, so what a group lacks in room it has in size.
    group = np.unique(((np.cumsum(due) - due) / (2 * LEAST_EXPECTED)).astype(np.int64), return_inverse=True)[1]
    means, counts = np.bincount(group, weights=due), np.bincount(group, weights=observed[order])
    if len(means) == 1:
        return (0.0 if round(float(means[0])) == int(counts[0]) else math.inf), 0.0
    return float(((counts - means) ** 2 / means).sum()), float(scipy.stats.chi2.isf(alpha, len(means) - 1))


def compare(
    send: Send, x: int, listed: Listing, log_law: Floats, draws: int, generator: np.random.Generator, alpha: float
) -> list[Comparison]:
    """Replies of users with the input x against their likelihood, in as many ways as the randomizer allows.

    `listed` are the replies there are, and `log_law` their likelihoods.
    """
    randomizer = send.randomizer
    every = randomizer.coins <= 2
    coins = all_coins(randomizer.coins) if every else flips(randomizer.coins, draws, generator)
    draws = len(coins)
    replies = draw(send, np.full(draws, x, dtype=np.int64), generator, coins)
    found = []
    if listed.complete:
        law = np.exp(log_law[:, x])
        if abs(law.sum() - 1) <= ROUNDING:
            found.append(_of_all(listed, law, replies, draws, exact=every, alpha=alpha))
    elif listed.group > 1:
        found.append(_of_choices(send, x, replies, generator, alpha))
    return found


def compare_posteriors(send: Send, draws: int, generator: np.random.Generator, alpha: float) -> Comparison:
    """Inputs drawn at random, replies drawn from them: what a reply tells about its input is what its likelihoods say.

    Likelihoods may leave out a factor that is the same for every input; here it cancels. Draws are counted by every
    byte of the reply, by pairs of bytes and by the whole reply, so that a column whose law depends on the input shows
    even if the likelihoods say nothing about it. Bernstein's inequality bounds what chance does, for any number of
    draws.
    """
    inputs = generator.integers(send.inputs, size=draws)
    replies = draw(send, inputs, generator)
    log = likelihoods(send, replies)
    with np.errstate(all="ignore"):
        posterior = np.exp(log - log.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
    if not np.isfinite(posterior).all():
        return Comparison(math.inf, 0.0, draws, "a likelihood that is not a number")
    cells = _cells(replies, draws, generator)
    limit = math.log(2 * sum(many for _, many in cells) * send.inputs / alpha)
    worst, share = (0.0, 1.0), 0.0
    for values, many in cells:
        for x in range(send.inputs):
            seen = np.bincount(values[inputs == x], minlength=many)
            due = np.bincount(values, weights=posterior[:, x], minlength=many)
            spread = np.bincount(values, weights=posterior[:, x] * (1 - posterior[:, x]), minlength=many)
            allowed = np.sqrt(2 * spread * limit) + limit / 3
            ratios = np.abs(seen - due) / allowed
            cell = int(ratios.argmax())
            if ratios[cell] > share:
                share, worst = float(ratios[cell]), (abs(float(seen[cell] - due[cell])), float(allowed[cell]))
    return Comparison(*worst, draws, "what replies tell about inputs")


def _cells(replies: Columns, draws: int, generator: np.random.Generator) -> list[tuple[Integers, int]]:
    """Ways to sort replies into cells: the cell of each reply, and how many cells there are."""
    rows = row_bytes({name: np.asarray(column) for name, column in replies.items()}, draws).astype(np.int64)
    # Bytes that are always the same tell nothing.
    places = np.flatnonzero(np.ptp(rows, axis=0)) if draws else np.arange(0)
    if len(places) > MOST_BYTES:
        places = generator.choice(places, size=MOST_BYTES, replace=False)
    cells: list[tuple[Integers, int]] = [(rows[:, place], 256) for place in places]
    # Two bytes together, by their upper or lower half: one alone may be uniform and still give the other away.
    lower = rows % 16
    upper = np.where(rows.max(axis=0, initial=0) < 16, lower, rows // 16)
    for first, second in combinations(places[:MOST_PAIRED], 2):
        for half in (upper, lower):
            cells.append((half[:, first] * 16 + half[:, second], 256))
    # The whole reply, as it is where there are few and else by a number that depends on all of its bytes.
    whole = rows @ generator.integers(1, 2**31, size=rows.shape[1])
    distinct, numbers = np.unique(whole, return_inverse=True)
    cells.append((numbers, len(distinct)) if len(distinct) <= MOST_CELLS else (whole % MOST_CELLS, MOST_CELLS))
    return cells


def affordable(send: Send, wanted: int) -> int:
    """As many replies as are wanted, or fewer where one is a lot of work."""
    return max(LEAST_DRAWS, min(wanted, MOST_WORK // max(1, send.randomizer.work)))


def all_coins(size: int) -> Coins:
    """Every row of so many bytes, each once."""
    numbers, shifts = np.arange(256**size)[:, None], 8 * np.arange(size)
    return np.asarray((numbers >> shifts) & 255, dtype=np.uint8)


def _of_all(listed: Listing, law: Floats, replies: Columns, draws: int, *, exact: bool, alpha: float) -> Comparison:
    """How often each reply was drawn, against its probability; with every coin, to the last one."""
    space, drawn = keys(listed.replies, listed.count), keys(_ordered(replies, listed.replies), draws)
    order = np.argsort(space)
    place = np.minimum(np.searchsorted(space, drawn, sorter=order), listed.count - 1)
    found = order[place]
    if not np.array_equal(space[found], drawn):
        return Comparison(math.inf, 0.0, draws, "a reply that is not in the list")
    observed = np.bincount(found, minlength=listed.count).astype(np.int64)
    if exact:
        return Comparison(float(np.abs(observed / draws - law).max()), 0.5 / draws, draws, "every coin there is")
    statistic, threshold = chi_square(observed, draws * law, alpha)
    return Comparison(statistic, threshold, draws, f"chi-square over {listed.how}")


def keys(replies: Columns, count: int) -> NDArray[np.bytes_]:
    """Every reply as one number or one string of bytes, which can be sorted."""
    (first, *more) = replies.values()
    if not more and first.ndim == 1 and first.dtype.kind in "iu":
        return np.asarray(first)
    rows = row_bytes(replies, count)
    # Strings of bytes drop zeros at their end, so one that is not zero is put there.
    padded = np.ascontiguousarray(np.concatenate([rows, np.ones((count, 1), np.uint8)], axis=1))
    return padded.view(f"S{padded.shape[1]}")[:, 0]


def _ordered(replies: Columns, like: Columns) -> Columns:
    """The same columns with the types that are listed."""
    return {name: np.asarray(replies[name]).astype(column.dtype, copy=False) for name, column in like.items()}


def _of_choices(send: Send, x: int, replies: Columns, generator: np.random.Generator, alpha: float) -> Comparison:
    """Given the seed, where the choice lies in its own law is uniform: counted in bins, with ties drawn."""
    alphabet = send.randomizer.alphabet
    assert alphabet is not None
    some = max(1, min(len(next(iter(replies.values()))), affordable(send, MOST_CHOICES) // alphabet.size))
    head = {name: column[:some] for name, column in replies.items()}
    listed = {name: np.repeat(column, alphabet.size, axis=0) for name, column in head.items()}
    numbers = np.arange(alphabet.first, alphabet.last + 1)
    listed[alphabet.column] = np.tile(numbers, some).astype(head[alphabet.column].dtype)
    law = np.exp(likelihoods(send, listed)[:, x]).reshape(some, alphabet.size)
    # Sorted by probability, so that a choice that is made too often for being likely shows.
    order = np.argsort(-law, axis=1, kind="stable")
    sent = head[alphabet.column].astype(np.int64) - alphabet.first
    rank = np.argmax(order == sent[:, None], axis=1)
    ranked = np.take_along_axis(law, order, axis=1)
    before = np.cumsum(ranked, axis=1)
    own = np.take_along_axis(ranked, rank[:, None], axis=1)[:, 0]
    place = np.take_along_axis(before, rank[:, None], axis=1)[:, 0] - own * generator.random(some)
    observed = np.bincount(np.clip((place * BINS).astype(np.int64), 0, BINS - 1), minlength=BINS)
    statistic, threshold = chi_square(observed.astype(np.int64), np.full(BINS, some / BINS), alpha)
    return Comparison(statistic, threshold, some, f"chi-square over choices of {alphabet.size} given their seeds")
