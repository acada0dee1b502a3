"""How many bins and whose answers about margins: chosen from public numbers, and the interval of a binned estimate.

    error^2 of m bins = noise of the inner protocol on m x m cells, squared + the error of what bins hide, squared

More bins hide less and are noisier. Both are known before the run: the noise at the public guesses, and what is hidden
by the model of `protocols/bins/hidden.py` at a public guess of the value.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import QUANTILE_95, Estimate
from parley.emulator.randomizer import Floats, Integers
from parley.protocols import registry
from parley.protocols.bins.binned import INNER, LEAST_SHARE, MEASURED_BY, Binned, check_ranks, workload_of
from parley.protocols.bins.borders import Bins, quantile_borders
from parley.protocols.bins.hidden import Column, Hidden, hidden_of, typical_hidden
from parley.protocols.bins.margins import MarginRead
from parley.protocols.planning.plan import VERBATIM, Option, pick, rank_protocols
from parley.protocols.planning.planning import Planning, public_guesses
from parley.protocols.tuned.codebook_round import forget_tables
from parley.protocols.workloads.workload import Workload

# Numbers of bins that are tried for a column.
CANDIDATES = (4, 6, 8, 12, 16, 24, 32)
# Users who show the margins well enough at epsilon 1, and the largest share of all that may be asked for it.
MARGIN_USERS = 24_000
MOST_ASKED = 0.2
# Below so many fine levels there is nothing to gain from bins: each level is one.
FEW_LEVELS = 8
# What bins hide depends on the value; a plan takes this share of the largest.
GUESS = 0.5
# Redrawn margins that the mean of what is hidden is taken over.
HIDDEN_DRAWS = 6


def margin_share(epsilon: float, users: int) -> float:
    """The share of users who are asked about margins: no more than is needed, and a fifth at most."""
    wanted = MARGIN_USERS * (math.tanh(0.5) / math.tanh(epsilon / 2)) ** 2
    return min(MOST_ASKED, max(LEAST_SHARE, wanted / users))


def remaining(users: int, share: float) -> int:
    """Users who are left for the inner protocol."""
    return max(2, round(users * (1 - share)))


def bins_of(fine: tuple[int, ...], many: int) -> tuple[int, ...]:
    """So many bins for every column that has more fine levels; a label keeps its two."""
    return tuple(min(many, each) for each in fine)


def best_levels(
    statistic: str, fine: tuple[int, ...], *, epsilon: float, users: int, name: str = "auto"
) -> tuple[int, ...]:
    """The bins with the smallest total error. Errors fall and then rise with the number of bins."""
    if max(fine) <= FEW_LEVELS:
        return fine
    errors: dict[int, float] = {}
    tried = [many for many in CANDIDATES if many < max(fine)] or [max(fine)]

    def error(place: int) -> float:
        many = tried[place]
        if many not in errors:
            levels = bins_of(fine, many)
            try:
                noise = predicted_noise(statistic, levels, epsilon, users, name)
            except BadInput:
                noise = math.inf
            errors[many] = math.hypot(noise, typical_hidden(levels, fine, ties=statistic == "kendall-b").error)
        return errors[many]

    place = min(range(len(tried)), key=lambda each: abs(tried[each] - 16))
    step = 1 if place + 1 < len(tried) and error(place + 1) < error(place) else -1
    while 0 <= place + step < len(tried) and error(place + step) < error(place):
        place += step
    return bins_of(fine, tried[place])


def predicted_noise(statistic: str, levels: tuple[int, ...], epsilon: float, users: int, name: str = "auto") -> float:
    """The predicted RMSE of the inner protocol on these cells; of the tuned ones where `auto` chooses among all."""
    workload = workload_of(MEASURED_BY[statistic], levels)
    inner: Any = registry.design("two-round-tuned" if name == "auto" else name, workload, epsilon=epsilon, users=users)
    return max(float(inner.predicted_rmse(guess)) for guess in public_guesses(workload))


@dataclass(frozen=True, kw_only=True)
class BinPlan:
    """Bins as they are planned: how many, the share of users who show the margins, what the bins will hide."""

    levels: tuple[int, ...]
    share: float
    hidden: Hidden
    options: tuple[Option, ...]

    def record(self) -> dict[str, Any]:
        hides = {"hidden": self.hidden.amount, "hidden_error": self.hidden.error}
        return {"levels": list(self.levels), "share": self.share, **hides}

    def __str__(self) -> str:
        shape, rmse = " x ".join(map(str, self.levels)), self.options[0].predicted_rmse
        return (
            f"{shape}; {self.share:.1%} of the users show the margins. At {GUESS:g} of the largest value bins "
            f"hide about {self.hidden.amount:+.2g}, known to {self.hidden.error:.2g}; with it the error is "
            f"{math.hypot(rmse, self.hidden.error):.2g}"
        )


def plan_bins(
    workload: Workload,
    levels: tuple[int, ...] | None,
    *,
    epsilon: float,
    users: int,
    names: list[str] | None = None,
) -> BinPlan:
    """All protocols of ranks for these fine levels, around the same bins, best first."""
    check_ranks(workload.name)
    share = margin_share(epsilon, users)
    left = remaining(users, share)
    chosen = levels or best_levels(workload.name, workload.shape, epsilon=epsilon, users=left)
    cells = workload_of(MEASURED_BY[workload.name], chosen)
    found = rank_protocols(cells, epsilon, left, None, names)
    hides = typical_hidden(chosen, workload.shape, ties=workload.name == "kendall-b", form=GUESS)
    options = []
    for option in found:
        if option.name not in INNER:
            continue
        fields: Any = {"statistic": workload.name, "fine": workload.shape, "share": share, "users": users}
        inner: Any = option.protocol
        made = Binned(**fields, inner=inner)
        # What ties divide by, for bins of equal shares.
        scale = 1.0 if workload.name != "kendall-b" else 1 / math.sqrt(math.prod(1 - 1 / each for each in chosen))
        margins = sum(dtype.itemsize for dtype, _ in made.rounds[0].reply.values())
        borders = 4 * made.border_count * len(option.protocol.rounds)
        options.append(
            replace(
                option,
                protocol=made,
                rounds=made.claim.rounds,
                predicted_rmse=scale * option.predicted_rmse,
                worst_rmse=scale * option.worst_rmse,
                bytes_up=share * margins + (1 - share) * option.bytes_up,
                bytes_down=option.bytes_down + borders,
            )
        )
    if not options:
        raise BadInput(f"none of these protocols can be asked about bins; known are {', '.join(INNER)}")
    return BinPlan(levels=chosen, share=share, hidden=hides, options=tuple(options))


class BinnedPlanning(Planning[Any]):
    """The error of what bins show, and the interval for what they are bins of.

    Where it comes from nobody worked out: the inner protocol's sources do not know of ties and samples.
    """

    protocol: Binned

    @classmethod
    def design(
        cls,
        kind: type[Binned],
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        levels: tuple[int, ...] | None = None,
        inner: str = "auto",
    ) -> Binned:
        """Bins for the fine levels of a statistic of ranks, and the protocol to measure it in them."""
        check_ranks(workload.name)
        share = margin_share(epsilon, users)
        left = remaining(users, share)
        if levels is None:
            levels = best_levels(workload.name, workload.shape, epsilon=epsilon, users=left, name=inner)
            # Other numbers of bins have tables of their own.
            forget_tables()
        cells = workload_of(MEASURED_BY[workload.name], levels)
        if inner == "auto":
            tried = [name for name in INNER if name not in VERBATIM]
            made: Any = pick(rank_protocols(cells, epsilon, left, None, tried)).protocol
        elif inner in INNER:
            made = registry.design(inner, cells, epsilon=epsilon, users=left)
        else:
            raise BadInput(f"{inner} cannot be asked about bins; known are {', '.join(INNER)}")
        return kind(statistic=workload.name, fine=workload.shape, share=share, users=users, inner=made)

    @property
    def planned_replies(self) -> tuple[int, ...]:
        asked = self.protocol.users - remaining(self.protocol.users, self.protocol.share)
        return (asked, *self.protocol.inner.planning.planned_replies)

    @property
    def ties(self) -> bool:
        return self.protocol.statistic == "kendall-b"

    def predicted_rmse(self, histogram: Floats | None = None) -> float:
        """Of the statistic in bins: the inner protocol's, and that of the ties; bins are those of the histogram."""
        protocol = self.protocol
        if histogram is None:
            inner, margins = protocol.inner.predicted_rmse(), [np.full(each, 1 / each) for each in protocol.levels]
        else:
            bins = protocol.quantiles(histogram)
            own = bins.cells(np.arange(protocol.inputs))
            cells = np.bincount(own, weights=histogram, minlength=protocol.inner.inputs).astype(np.float64)
            grid = cells.reshape(protocol.levels)
            margins = [grid.sum(axis=1), grid.sum(axis=0)]
            inner = protocol.inner.predicted_rmse(cells)
        sampling = self._sampling_variance(1.0)
        if not self.ties:
            return math.hypot(inner, math.sqrt(sampling))
        untied = math.prod(1 - float(own @ own) for own in margins)
        spread = TIE_NOISE / math.tanh(protocol.epsilon / 2) / math.sqrt(max(1, self.planned_replies[0]))
        return math.hypot(inner, math.sqrt(sampling), spread) / math.sqrt(max(untied, 1e-9))

    def _sampling_variance(self, spread: float) -> float:
        """At most what it adds that the users of the inner protocol are a random sample of all."""
        users, low_high = self.protocol.users, self.protocol.inner.workload.bounds
        left = remaining(users, self.protocol.share)
        return spread * (low_high[1] - low_high[0]) ** 2 * (1 / left - 1 / users)

    def finish(self, found: Estimate, read: MarginRead, bins: Bins) -> Estimate:
        """The statistic in bins, and an interval for that of the fine levels.

        The interval is moved by what bins hide, and as wide as noise and the error of that make it. It holds the
        estimate in any case.
        """
        protocol = self.protocol
        low, high = protocol.workload.bounds
        scale, value, variance = 1.0, found.value, found.predicted_rmse**2 + self._sampling_variance(1.0)
        columns = [Column(bins.shares(place, own), bins.widths(place)) for place, own in enumerate(read.shares)]
        details: dict[str, Any] = {}
        if self.ties:
            ties = [tied_share(bins, read, place) for place in range(len(columns))]
            untied = [max(1 - share, 0.01) for share, _ in ties]
            scale = 1 / math.sqrt(math.prod(untied))
            relative = sum((error / 2 / own) ** 2 for (_, error), own in zip(ties, untied, strict=True))
            variance = scale**2 * (variance + found.value**2 * relative)
            details["untied"] = untied
            value = min(max(scale * value, low), high)
        rmse = math.sqrt(variance)
        less = self._hidden(columns, found, read, bins)
        noise = (value - QUANTILE_95 * rmse, value + QUANTILE_95 * rmse)
        interval = less.interval(value, rmse)
        details |= {"hidden": less.amount, "hidden_error": less.error, "noise_low": noise[0], "noise_high": noise[1]}
        return Estimate(value=value, predicted_rmse=rmse, interval95=interval, details=details)

    def _hidden(self, columns: list[Column], found: Estimate, read: MarginRead, bins: Bins) -> Hidden:
        if self.protocol.levels == self.protocol.fine:
            return Hidden(amount=0.0, error=0.0)
        redrawn = [
            [Column(bins.shares(place, own), bins.widths(place)) for own in several.T[:HIDDEN_DRAWS]]
            for place, several in enumerate(read.redrawn)
        ]
        draws = list(zip(*redrawn, strict=True))
        return hidden_of(self.protocol.workload, columns[0], columns[1], found.value, draws)


# The standard error of tau-b's numerator that unknown ties amount to is this over sqrt(users) tanh(eps/2).
TIE_NOISE = 0.4


def tied_share(bins: Bins, read: MarginRead, column: int) -> tuple[float, float]:
    """The share of pairs that a column's bins tie, and its standard error.

    Borders were put where bins seem to hold equal shares, so what was read is too even; and an atom that was read is
    too small, because its neighbours got some of it. Redrawing from what was read shows by how much, if borders are
    chosen again each time.
    """
    own, (fine, levels) = read.shares[column], (bins.fine[column], bins.levels[column])

    def ties(shares: Floats, borders: Integers) -> float:
        return float((np.add.reduceat(shares, np.concatenate([[0], borders])) ** 2).sum())

    missed = []
    for again in read.redrawn[column].T:
        borders = quantile_borders(again, levels) if levels < fine else bins.borders[column]
        missed.append(ties(own, borders) - ties(again, borders))
    return max(0.0, ties(own, bins.borders[column]) + float(np.mean(missed))), float(np.std(missed, ddof=1))
