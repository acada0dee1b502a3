"""From an estimated form to the statistic, with the error it may be off by, from public quantities alone."""

import math
from collections.abc import Mapping
from typing import Any

from emulator.protocol import Estimate
from protocols.factorization.operator import Factor
from protocols.workloads.workload import Workload

QUANTILE_95 = 1.959963984540054


def estimate(
    workload: Workload,
    shifted_form: float,
    means: Mapping[str, float],
    *,
    users: int,
    replies: tuple[int, ...],
    form_variance: float,
    side_variances: Mapping[str, float],
    details: Mapping[str, Any] | None = None,
) -> Estimate:
    """The statistic from h'(W - cJ)h and the side queries; errors propagate through the value's gradient."""
    form = shifted_form + workload.shift
    value = workload.value(form, means, users)
    slopes = workload.gradient(form, means, users)
    variances = {"form": form_variance + dropout_variance(workload, users, min(replies)), **side_variances}
    rmse = math.sqrt(sum(slopes[name] ** 2 * variance for name, variance in variances.items()))
    half = QUANTILE_95 * rmse
    return Estimate(
        value=value,
        predicted_rmse=rmse,
        interval95=(value - half, value + half),
        details={"form": form, **means, **(details or {})},
    )


def dropout_variance(workload: Workload, users: int, replies: int) -> float:
    """At most what a random subset of the users adds: 4 Var[(Wh)_x] / m times the share that is missing."""
    low, high = workload.bounds
    return (high - low) ** 2 / replies * (1 - min(1.0, replies / users))


def projection_error(factor: Factor, variance: float) -> float:
    """Theorem proj in numbers: E|mu - Ah|^2 is at most l v, and at most E max_j |<A_j, Z>| for Z of variance v."""
    unprojected = factor.rows * variance
    widest = factor.radius * math.sqrt(variance)
    vertices = widest * math.sqrt(2 * math.log(2 * factor.inputs))
    return min(unprojected, vertices, (2 * factor.radius) ** 2)
