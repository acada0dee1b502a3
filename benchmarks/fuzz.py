"""Fuzz codec, transcript reader, board and user node for as long as they are let.

    python -m benchmarks.fuzz [codec|transcript|board|cohort ...] [--seconds 60] [--seed S]

With atheris installed (`pip install atheris`) inputs are guided by coverage; without it they are random changes of
what an honest run says, from a seed. The first input that breaks a promise ends it and is kept.
"""

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("codec", "transcript", "board", "cohort")
LARGEST = 2**16


def changed(seeds: list[bytes], generator: np.random.Generator) -> Iterator[bytes]:
    """Without end: a seed with some bytes set, cut out, repeated, or joined with another's."""
    while True:
        data = bytearray(seeds[int(generator.integers(len(seeds)))])
        for _ in range(int(generator.integers(1, 8))):
            place, size = int(generator.integers(len(data) + 1)), int(generator.integers(1, 9))
            kind = int(generator.integers(5))
            if kind == 0:
                data[place : place + size] = generator.bytes(min(size, len(data) - place))
            elif kind == 1:
                del data[place : place + size]
            elif kind == 2:
                data[place:place] = data[place : place + size]
            elif kind == 3:
                data[place : place + 1] = bytes([int(generator.choice([0, 1, 0x7F, 0x80, 0xC1, 0xDD, 0xDF, 0xFF]))])
            else:
                other = seeds[int(generator.integers(len(seeds)))]
                data[place:] = other[int(generator.integers(len(other))) :]
        yield bytes(data[:LARGEST])


def plain(target: str, seconds: float, seed: int, most: int | None = None) -> int:
    """Random changes; how many inputs were tried."""
    from benchmarks.targets import TARGETS, seeds

    until, tried = time.monotonic() + seconds, 0
    for data in changed(seeds(target), np.random.default_rng(seed)):
        if time.monotonic() >= until or tried == most:
            return tried
        try:
            TARGETS[target](data)
        except BaseException:
            kept = Path(tempfile.mkdtemp(prefix="parley-fuzz-")) / target
            kept.write_bytes(data)
            print(f"{target} broke its promise; the input is in {kept}", file=sys.stderr)
            raise
        tried += 1
    return tried


def guided(target: str, seconds: float, seed: int) -> int:
    """The same under atheris, which ends its process itself; its exit code."""
    with tempfile.TemporaryDirectory() as corpus:
        command = [sys.executable, "-m", "benchmarks.guided", target, corpus, str(seconds), str(seed)]
        return subprocess.run(command, cwd=ROOT, check=False).returncode


@click.command()
@click.argument("targets", nargs=-1, type=click.Choice(NAMES))
@click.option("--seconds", default=60.0, show_default=True, help="For each target.")
@click.option("--seed", default=1, show_default=True, help="Where chance starts.")
@click.option("--plain", "unguided", is_flag=True, help="Without atheris, even if it is there.")
def main(targets: tuple[str, ...], seconds: float, seed: int, unguided: bool) -> None:
    """Throw bytes at the targets."""
    failed = False
    logging.disable()
    for target in targets or NAMES:
        if unguided or find_spec("atheris") is None:
            click.echo(f"{target}: {plain(target, seconds, seed)} inputs, no promise broken")
        else:
            failed |= guided(target, seconds, seed) != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
