"""Forge signed records of a run with several boards in every way that needs no key, and audit each: none may pass.

    python -m benchmarks.forgery_shards [--edits 600] [--seed 1]

An edit changes the record of the head board or of a shard, and makes its hashes, and where the forger likes its heads,
fit again (`forgery.py`); or it takes a shard's record away, cuts it, or puts another one in its place. The commands
that read records are run on the edits as well: none may end in a traceback.
"""

import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from benchmarks.forgery import EDITORS, Draft, Generator, Tried, choice, commands, try_commands
from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.report import Report, audit
from parley.emulator.errors import ParleyError
from parley.emulator.record.shards import FOLDER
from parley.emulator.wire.security import write_trust
from parley.protocols.registry import build, design
from parley.protocols.workloads.kendall import Kendall
from tests.emulator.sharded import FILE, Whole

USERS, NODES, SHARDS = 60, 6, 3
PROTOCOLS = ("three-round", "two-round-tuned", "binned")
PARTS = (FILE, *(f"{FOLDER}/shard-{number}/{FILE}" for number in range(SHARDS)))


@dataclass(frozen=True)
class Honest:
    """An honest signed run of several boards: its folder and its keys."""

    folder: Path
    name: str
    keys: dict[str, bytes]
    drafts: dict[str, Draft]

    @classmethod
    def make(cls, folder: Path, name: str) -> "Honest":
        protocol = design(name, Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
        inputs = np.random.default_rng(5).integers(0, protocol.inputs, USERS)
        whole = Whole(folder, protocol, inputs, shards=SHARDS, nodes=NODES)
        whole.run()
        write_trust(folder / "trust.toml", whole.keys)
        return cls(folder, name, whole.keys, {part: Draft.read(folder / part) for part in PARTS})

    def audit(self, folder: Path) -> Report:
        """What `parley audit` finds with the keys of the honest run."""
        return audit(folder / FILE, build, keys=self.keys)

    def forged(self, folder: Path, generator: Generator) -> str:
        """A forgery in a new folder; what was done."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        if generator.random() < 0.1:
            return self._moved(folder, generator)
        part = choice(generator, PARTS)
        original = (self.folder / part).read_bytes()
        while True:
            draft = self.drafts[part].copy()
            with contextlib.suppress(ParleyError, ValueError, TypeError, OverflowError, IndexError):
                for _ in range(choice(generator, (1, 1, 2, 3))):
                    with np.errstate(all="ignore"):
                        choice(generator, EDITORS)(draft, generator)
                content = draft.bytes(heads=bool(generator.random() < 0.7))
                if content != original:
                    (folder / part).write_bytes(content)
                    return f"an edit of {part}"

    def _moved(self, folder: Path, generator: Generator) -> str:
        """A shard's record goes, is cut off, or takes another's place."""
        one, other = (folder / part for part in generator.permutation(PARTS[1:])[:2])
        kind = int(generator.integers(4))
        if kind == 0:
            shutil.rmtree(one.parent)
            return "a record less"
        if kind == 1:
            one.write_bytes(one.read_bytes()[: int(generator.integers(one.stat().st_size))])
            return "a record cut off"
        mine, its = one.read_bytes(), other.read_bytes()
        one.write_bytes(its)
        if kind == 2:
            other.write_bytes(mine)
            return "two records exchanged"
        return "a record twice"


def forge(edits: int, seed: int, folder: Path, names: Sequence[str], *, every_command: bool) -> Tried:
    """Make and audit all forgeries, and run on each every command that reads a record, or one in turn."""
    generator, tried, place = np.random.default_rng(seed), Tried(Counter(), [], []), folder / "forged"
    with one_thread():
        runs = [Honest.make(folder / name, name) for name in names]
    for honest in runs:
        report = honest.audit(honest.folder)
        assert report.ok, report.record()
        assert report.verdicts["authorship"].verdict == "pass"
    for number in range(edits):
        honest = runs[number % len(runs)]
        what = honest.forged(place, generator)
        tried.take(f"{number} of {honest.name}, {what},", honest.audit(place), place)
        wanted = commands(place / FILE, honest.folder / FILE, folder)
        try_commands(wanted if every_command else [wanted[number % len(wanted)]], folder, tried)
    return tried


@click.command()
@click.option("--edits", default=600, show_default=True, help="Random edits.")
@click.option("--seed", default=1, show_default=True, help="Where chance starts.")
def main(edits: int, seed: int) -> None:
    """Forge, audit, count."""
    with tempfile.TemporaryDirectory() as folder:
        tried = forge(edits, seed, Path(folder), PROTOCOLS, every_command=True)
    for name in dict.fromkeys(name for name, _ in tried.verdicts):
        counts = ", ".join(f"{tried.verdicts[name, each]} {each}" for each in ("fail", "unknown", "pass"))
        click.echo(f"{name.replace('_', ' '):<13} {counts}")
    for problem in [*tried.missed, *tried.fallen]:
        click.echo(problem, err=True)
    click.echo(f"{tried.count} forgeries: {len(tried.missed)} passed, {len(tried.fallen)} ended in a traceback")
    sys.exit(bool(tried.missed or tried.fallen))


if __name__ == "__main__":
    main()
