"""How long a codebook takes to encode users and to sum their replies, next to numpy drawing as many normals.

Run as `python -m benchmarks.codebook`. The three figures are taken in turn, in one process, so their ratio holds on
a busy machine, too. The aim is a ratio of at most 3.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeVar

import click
import numpy as np

from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.randomizers.vectors.directional import blocks

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Seconds, each the median of the repeats."""

    users: int
    dimension: int
    candidates: int
    encode: float
    decode: float
    normals: float
    ratio: float


def timed(job: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds a job takes on the wall's clock, and what it returns."""
    start = time.perf_counter()
    result = job()
    return time.perf_counter() - start, result


def draw_normals(users: int, numbers: int, generator: np.random.Generator) -> None:
    """As many normals as the codebook expands seeds to, in blocks that fit the cache, too."""
    for block in blocks(users, numbers):
        generator.standard_normal((block.stop - block.start, numbers))


def measure(*, users: int, dimension: int, epsilon: float, candidates: int, repeats: int) -> Figures:
    """Encode, sum and draw normals, `repeats` times in turn."""
    generator = np.random.default_rng(1)
    codebook = Codebook(dimension=dimension, radius=1.0, epsilon=epsilon, candidates=candidates)
    inputs = generator.standard_normal((users, dimension))
    inputs /= np.linalg.norm(inputs, axis=1)[:, None]
    coins = generator.integers(0, 256, (users, codebook.coins), dtype=np.uint8)
    rows = []
    for _ in range(repeats):
        encoding, reply = timed(lambda: codebook.sample(inputs, coins))
        decoding, _ = timed(partial(codebook.total, reply))
        normals, _ = timed(lambda: draw_normals(users, candidates // 2 * dimension, generator))
        rows.append((encoding, decoding, normals, (encoding + decoding) / normals))
    encoding, decoding, normals, ratio = (median(column) for column in zip(*rows, strict=True))
    return Figures(
        users=users,
        dimension=dimension,
        candidates=candidates,
        encode=encoding,
        decode=decoding,
        normals=normals,
        ratio=ratio,
    )


@click.command()
@click.option("--users", default=100_000, show_default=True)
@click.option("--dimension", default=256, show_default=True)
@click.option("--epsilon", default=1.0, show_default=True)
@click.option("--candidates", default=16, show_default=True)
@click.option("--repeats", default=5, show_default=True)
def main(users: int, dimension: int, epsilon: float, candidates: int, repeats: int) -> None:
    """Print the figures and their ratio."""
    figures = measure(users=users, dimension=dimension, epsilon=epsilon, candidates=candidates, repeats=repeats)
    print(f"{users} users, d = {dimension}, M = {candidates}, eps = {epsilon}")
    print(f"encode  {figures.encode:8.3f} s")
    print(f"decode  {figures.decode:8.3f} s (the sum of all replies)")
    print(f"normals {figures.normals:8.3f} s (numpy, {users * (candidates // 2) * dimension} of them)")
    print(f"ratio   {figures.ratio:8.2f} (aim: at most 3)")


if __name__ == "__main__":
    main()
