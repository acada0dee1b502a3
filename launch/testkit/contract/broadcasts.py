"""What a lying analyst may broadcast: well-formed arrays with extreme content, and arrays that are not well-formed.

Well-formed ones must be refused, or answered within the claim: each comes as it is and, where it is refused, as near to
it as it is still answered, because a check that is a little too generous is wrong at its edge.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast
from parley.emulator.round import Round

FACTORS = (-1.0, 0.0, 0.5, 2.0, -10.0, 1e3, 1e6)
CONSTANTS = (0.0, 1.0, -1.0, 0.5, 1e3, -1e3, 1e9, 1e-9, 1e60, 1e150, -1e308)
# Where a round broadcasts one, two or three numbers, these in all combinations.
NUMBERS = (0.0, 1.0, 0.5, -1.0, 0.999, 2.0, 1e-12, 0.25, 1e3, -1e9, 1e60)
BISECTIONS = 24


def accepts(step: Round, public: Broadcast) -> bool:
    """Whether users answer this broadcast. Any other error than a refusal is passed on."""
    try:
        step.check_broadcast(public)
    except RemoteProtocolError:
        return False
    return True


def extreme(step: Round, honest: list[Broadcast], most: int, seed: int) -> Iterator[Broadcast]:
    """At most so many well-formed broadcasts that no honest analyst would choose; the same for the same seed."""
    if not step.broadcast:
        return
    generator = np.random.default_rng([seed, step.number])
    for number, made in enumerate(_extreme(step, honest, generator)):
        if number == most:
            return
        if all(np.isfinite(array).all() for array in made.values() if array.dtype.kind == "f"):
            yield made


def _extreme(step: Round, honest: list[Broadcast], generator: np.random.Generator) -> Iterator[Broadcast]:
    base, shape = honest[0], step.broadcast
    numbers = [name for name, (dtype, lengths) in shape.items() if not lengths and dtype.kind == "f"]
    for combination in product(NUMBERS, repeat=len(numbers)) if 0 < len(numbers) <= 2 else ():
        yield {
            **base,
            **{name: np.asarray(value, np.float64) for name, value in zip(numbers, combination, strict=True)},
        }
    for name, (dtype, lengths) in shape.items():
        if dtype.kind == "f":
            for factor in FACTORS:
                yield {**base, name: np.asarray(base[name] * factor, dtype)}
            for constant in CONSTANTS:
                yield {**base, name: np.full(lengths, constant, dtype)}
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype.str)
            for value in (0, 1, -1, step.inputs - 1, step.inputs, limits.max, limits.min):
                if limits.min <= value <= limits.max:
                    yield {**base, name: np.full(lengths, value, dtype)}
        elif dtype.kind == "b":
            for value in (False, True):
                yield {**base, name: np.full(lengths, value, dtype)}
    for first, second in ((a, b) for a in shape for b in shape if a < b and shape[a] == shape[b]):
        yield {**base, first: base[second], second: base[first]}
    while True:
        base = honest[int(generator.integers(len(honest)))]
        yield {name: _random(base[name], *shape[name], generator) for name in shape}


def _random(base: NDArray[Any], dtype: Any, lengths: tuple[int, ...], generator: np.random.Generator) -> NDArray[Any]:
    if dtype.kind != "f":
        return np.asarray(generator.permutation(base.ravel()).reshape(lengths), dtype)
    scale = float(10.0 ** generator.uniform(-3, 6)) * (float(np.abs(base).max(initial=0.0)) or 1.0)
    choice = generator.integers(4)
    if choice == 0 or not lengths:
        return np.asarray(generator.normal(size=lengths) * scale, dtype)
    spike = np.zeros(lengths)
    spike.flat[int(generator.integers(spike.size))] = generator.choice((-1.0, 1.0)) * scale
    if choice == 1:
        return np.asarray(spike, dtype)
    return np.asarray(base + (spike if choice == 2 else generator.normal(size=lengths) * scale), dtype)


def edge(step: Round, inside: Broadcast, outside: Broadcast) -> Broadcast | None:
    """Between one that is answered and one that is refused, the last that is answered; None if that is not so."""
    floats = [name for name, array in inside.items() if array.dtype.kind == "f"]
    if not floats or not accepts(step, inside):
        return None

    def at(share: float) -> Broadcast:
        with np.errstate(all="ignore"):
            mixed = {name: np.asarray(inside[name] + share * (outside[name] - inside[name])) for name in floats}
        return {**outside, **mixed}

    low, high = 0.0, 1.0
    # Hostile numbers may be larger by many orders of magnitude than any that are answered.
    while high > 1e-290 and not accepts(step, at(high * 1e-6)):
        high *= 1e-6
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(step, at(middle)) else (low, middle)
    return at(low) if low > 0 and accepts(step, at(low)) else None


def malformed(step: Round, honest: Broadcast) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Arrays that no node may answer, whatever the protocol: each with a name for it."""
    public = dict(honest)
    yield "an array that nobody declared", {**public, "surprise": np.zeros(3)}
    for name, (dtype, lengths) in step.broadcast.items():
        array = public[name]
        yield f"{name} left out", {other: each for other, each in public.items() if other != name}
        yield f"{name} of another shape", {**public, name: np.zeros((*lengths, 2), dtype)}
        yield f"{name} of another type", {**public, name: array.astype(np.int8 if dtype.kind == "f" else np.float32)}
        for value in (np.nan, np.inf, -np.inf) if dtype.kind == "f" and array.size else ():
            spoiled = np.array(array, dtype)
            spoiled.flat[0] = value
            yield f"{name} with {value}", {**public, name: spoiled}
