"""Sources of error of the protocols that come with Parley, from what the analyst heard: the terms of their proofs.

Predicted: the parts of the analyst's own predicted variance; what the replies do not tell apart goes to the vectors, so
that the parts add up to the whole. Realised, from the inputs: one perfect answer after the other is put in place of a
noisy one, from the truth to the estimate, so that the errors add up to estimate minus truth.
"""

from collections.abc import Iterable, Mapping
from functools import singledispatch
from itertools import pairwise
from typing import Any

import numpy as np

from parley.emulator.protocol import Broadcast, Inputs, Protocol
from parley.emulator.randomizer import Floats
from parley.emulator.tally import Tally
from parley.protocols.legacy_pairwise import Pairwise
from parley.protocols.pairwise import Pairwise as New
from parley.protocols.tuned.ratio_form import Guess
from parley.protocols.tuned.split_users import Tuned

Heard = tuple[tuple[Broadcast, Tally], ...]
Sources = dict[str, float]

SIDE, SAMPLING = "linear queries", "sampling of the last users"


@singledispatch
def predicted(protocol: Protocol, heard: Heard, rmse: float) -> Sources | None:
    """Variance of the estimate by source; None where nobody worked that out."""
    if isinstance(protocol, New) and protocol.script:
        return protocol.planning.error_sources(_new(protocol, heard), rmse)
    return None


def _new(protocol: Protocol, heard: Heard) -> tuple[Any, ...]:
    from parley.emulator.protocol import Heard as NewHeard

    return tuple(
        NewHeard(public, step.sends(public), tally)
        for step, (public, tally) in zip(protocol.rounds, heard, strict=True)
    )


@singledispatch
def realised(protocol: Protocol, heard: Heard, inputs: Inputs) -> Sources | None:
    """Signed error of the estimate by source; None where nobody worked that out."""
    if isinstance(protocol, New) and protocol.script:
        return protocol.planning.realised_errors(_new(protocol, heard), inputs)
    return None


@predicted.register
def _(protocol: Tuned, heard: Heard, rmse: float) -> Sources:
    public, tally = heard[-1]
    answer = protocol.scalars.answer(public, tally)
    replies = _replies(heard[-1])
    spread = float(public["anchor"][3]) * answer.slope**2 / replies
    sampling = spread * max(0.0, 1 - replies / protocol.users)
    return {
        "vectors": max(0.0, rmse**2 - answer.variance),
        SAMPLING: min(sampling, answer.variance),
        "scalars": max(0.0, answer.variance - sampling),
    }


@realised.register
def _(protocol: Tuned, heard: Heard, inputs: Inputs) -> Sources:
    """B(Y - Ah, Ah - mu), then who was drawn to answer last, then the noise of what they said."""
    workload, scalars = protocol.workload, protocol.scalars
    public, tally = heard[-1]
    values = scalars.values(public)
    last = inputs[scalars.participates(np.arange(len(inputs)))]
    means = [values[inputs].mean(), values[last].mean() if len(last) else 0.0, scalars.mean(tally, "scalar", public)]
    pivot, ratio, denominator, _sampling = (float(number) for number in public["anchor"])
    guess = Guess(ratio=ratio, denominator=denominator)
    answers = [protocol.target.value(scalars.complete(float(mean) - pivot), guess) for mean in means]
    return _steps(("vectors", SAMPLING, "scalars"), [workload.exact(inputs), *answers])


def _with_rest(protocol: Pairwise, heard: Heard, rmse: float, scalars: Mapping[str, float], rest: str) -> Sources:
    """Scalars and linear queries as their randomizers say, and the rest of the analyst's own prediction."""
    means = protocol.side.means(heard[0][1])
    slopes = protocol.workload.gradient(0.0 if not means else _form(protocol, heard), means, protocol.users)
    known = {name: variance * slopes["form"] ** 2 for name, variance in scalars.items()}
    side = sum(slopes[name] ** 2 * each for name, each in protocol.side.variances(_replies(heard[0])).items())
    known |= {SIDE: side} if side else {}
    return {rest: max(0.0, rmse**2 - sum(known.values())), **known}


def _form(protocol: Pairwise, heard: Heard) -> float:
    """The form the analyst found, as its estimate says."""
    estimate = protocol.conclude(heard)
    return float(getattr(estimate, "details", {}).get("form", 0.0))


def _of_forms(
    protocol: Pairwise, heard: Heard, histogram: Floats, factored: float, steps: Mapping[str, float]
) -> Sources:
    """From errors of the form to errors of the statistic, which may need linear queries as well."""
    workload, users = protocol.workload, protocol.users
    true_means = {name: float(query @ histogram) for name, query in workload.linear_queries().items()}
    forms = np.cumsum([factored, *steps.values()]) + workload.shift
    values = [workload.value(form, true_means, users) for form in forms.tolist()]
    values.append(workload.value(float(forms[-1]), protocol.side.means(heard[0][1]), users))
    exact = workload.value(workload.form(histogram), true_means, users)
    errors = _steps(("factorisation", *steps, SIDE), [exact, *values])
    # An exact factorisation leaves nothing but rounding, and most statistics need no linear queries.
    return {name: error for name, error in errors.items() if name in steps or abs(error) > 1e-9}


def _steps(names: Iterable[str], values: list[float]) -> Sources:
    return {name: after - before for name, (before, after) in zip(names, pairwise(values), strict=True)}


def _replies(round_heard: tuple[Broadcast, Tally]) -> int:
    return max(1, round_heard[1].replies)
