"""What an interval says: cut to what is possible, and where it says little, what would help."""

import math

from parley.protocols.planning.target import rounded_up

Range = tuple[float, float]
# An interval that covers so much of what is possible says little; advice aims at half of that.
LITTLE = 0.5
# Where bins, and not noise, make an interval so many times as wide, more users would not help.
WIDE = 2.0
# Errors grow like 1/epsilon up to about here; beyond, more epsilon helps less than that.
LARGEST_ADVISED_EPSILON = 4.0


def inside(interval: Range, possible: Range | None) -> Range:
    """The part of the interval that is possible; where there is none, the end that lies nearest.

    The truth is always possible, so that cutting loses no coverage.
    """
    if possible is None:
        return interval
    low, high = possible
    return min(max(interval[0], low), high), min(max(interval[1], low), high)


def share(interval: Range, possible: Range | None) -> float | None:
    """Which share of what is possible the interval covers; None where nobody knows what is possible."""
    if possible is None or not possible[1] > possible[0]:
        return None
    low, high = inside(interval, possible)
    return (high - low) / (possible[1] - possible[0])


def advice_on_bins(interval: Range, noise: Range | None, *, found: bool) -> str | None:
    """A sentence where what bins hide makes the interval WIDE times as wide as noise alone does, and what would help.

    `found`: the bins are at quantiles already.
    """
    if noise is None or not interval[1] - interval[0] > WIDE * (noise[1] - noise[0]) > 0:
        return None
    times = (interval[1] - interval[0]) / (noise[1] - noise[0])
    helps = "more bins or a finer resolution hide less" if found else "--bins quantile --levels auto hides less"
    return f"what bins hide makes the interval {times:,.0f} times as wide as noise alone does; {helps}"


def advice(interval: Range, possible: Range | None, *, rmse: float, users: int, epsilon: float) -> str | None:
    """A sentence where the interval says little: how many users, or which epsilon, would halve what it leaves open.

    The error falls like 1/sqrt(users), and like 1/epsilon as long as epsilon is small.
    """
    covered = share(interval, possible)
    if possible is None or covered is None or not math.isfinite(rmse):
        return None
    factor = 2 * 1.96 * rmse / (LITTLE / 2 * (possible[1] - possible[0]))
    # With so much noise an interval may lie beside what is possible, and is a point when it is cut.
    beside = covered == 0 and factor > 1
    if covered < LITTLE and not beside:
        return None
    more = epsilon * factor
    other = f", or epsilon {more:.2g} with these users," if more <= LARGEST_ADVISED_EPSILON else ""
    said = "nothing" if beside or covered > 0.999 else "little"
    why = "no possible value lies in it, from" if beside else f"it covers {covered:.0%} of what is possible,"
    return (
        f"the interval says {said}: {why} {possible[0]:g} to {possible[1]:g}; "
        f"about {rounded_up(users * factor**2):,} users at this epsilon{other} would narrow it to {LITTLE / 2:.0%}"
    )
