"""Kendall's tau by the way a user would otherwise take: a private histogram from a package, and tau of that histogram.

The same users for all, drawn once. Parley's `auto` is run in memory, every reply drawn, as often as the others; and
once as a user would, over sockets and on record.
"""

import csv
import json
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.others.environment import Environment
from benchmarks.others.rows import PROGRAMS, ROOT, Part, Row
from benchmarks.others.watched import run
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Floats
from parley.launch.results.sweeps import batches, rmse, trial
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.kendall import Kendall

LEVELS, EPSILON, SEED = (16, 16), 1.0, 1
# The local hashing of both gives text to xxhash, which from version 4 on wants bytes.
MULTI_FREQ = ("multi-freq-ldpy==0.2.5", "numba==0.68.1", "numpy==2.4.6", "xxhash==2.0.2")
# It imports two packages that it does not ask pip for.
PURE = (
    "pure-ldp==1.2.0",
    "bitstring==5.0.0",
    "numpy==2.4.6",
    "scikit-learn==1.9.1",
    "statsmodels==0.15.0",
    "xxhash==2.0.2",
)
NAMES = {"multi_freq_histograms": "multi-freq-ldpy", "pure_ldp_histograms": "pure-ldp"}
KINDS = {"clipped": "as shipped: clipped", "inverted": "clipping taken out", "plain": "as shipped"}
COLUMNS = ("first", "second")
HEADS = ("who", "mechanism", "histogram", "trials", "RMSE", "bias", "seconds")


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Of one way to estimate; seconds are the median over trials, compiling left out."""

    who: str
    mechanism: str
    histogram: str
    errors: Floats
    seconds: float

    def row(self) -> Row:
        # One trial says nothing about the error, only about the time.
        several = (rmse(self.errors), float(np.mean(self.errors))) if len(self.errors) > 1 else ("", "")
        return (self.who, self.mechanism, self.histogram, len(self.errors), *several, self.seconds)


@dataclass(frozen=True, kw_only=True)
class Users:
    """Everybody's input, and tau."""

    workload: Kendall
    inputs: Inputs

    @property
    def truth(self) -> float:
        return self.workload.exact(self.inputs)

    def plugged_in(self, histograms: Floats) -> Floats:
        """Errors of tau, one for each row: what the statistic is if the histogram is taken for the truth."""
        users = len(self.inputs)
        return np.array([self.workload.value(self.workload.form(each), {}, users) for each in histograms]) - (
            self.truth
        )


def draw(users: int, levels: tuple[int, int] = LEVELS) -> Users:
    workload = Kendall(levels=levels)
    return Users(workload=workload, inputs=synthetic.draw("correlated", workload, users, np.random.default_rng(SEED)))


def theirs(where: Environment, users: Users, program: str, mechanism: str, trials: int) -> list[Errors]:
    """Tau of the histograms a package makes: as it ships them, and without clipping where it clips."""
    with TemporaryDirectory() as name:
        given, made = Path(name) / "inputs.npy", Path(name) / "made.npz"
        np.save(given, users.inputs)
        words = (given, users.workload.size, EPSILON, trials, mechanism, made)
        done = run((where.python, PROGRAMS / f"{program}.py", *words), variables=where.variables(), folder=where.home)
        with np.load(made) as found:
            errors = {kind: users.plugged_in(found[kind]) for kind in found.files}
    seconds = statistics.median(done.record["seconds"])
    return [
        Errors(who=NAMES[program], mechanism=mechanism, histogram=KINDS[kind], errors=each, seconds=seconds)
        for kind, each in errors.items()
    ]


def ours(users: Users, name: str, trials: int) -> list[Errors]:
    """Whole conversations in memory, every reply drawn and decoded."""
    protocol = design(name, users.workload, epsilon=EPSILON, users=len(users.inputs))
    errors, seconds = list[Floats](), list[float]()
    for number in range(trials):
        (one,) = batches(number, protocol, users.inputs, users.truth, trials=1, seed=SEED, exact=True)
        began = time.perf_counter()
        errors.append(trial(one).errors)
        seconds.append(time.perf_counter() - began)
    found = Errors(
        who=f"Parley, `{name}`, in memory",
        mechanism=protocol.name,
        histogram="",
        errors=np.concatenate(errors),
        seconds=statistics.median(seconds),
    )
    return [found]


def as_users_do(users: Users) -> list[Errors]:
    """`parley run` on a file that holds these users: sockets, record, report."""
    with TemporaryDirectory() as name:
        file = Path(name) / "users.csv"
        with file.open("w", newline="") as text:
            writer = csv.writer(text)
            writer.writerow(COLUMNS)
            writer.writerows(zip(*np.divmod(users.inputs, users.workload.levels[1]), strict=True))
        ranges = [f"{column}=0:{levels - 1}" for column, levels in zip(COLUMNS, users.workload.levels, strict=True)]
        data = ("--data", file, "--columns", ",".join(COLUMNS), "--range", ranges[0], "--range", ranges[1])
        levels = "x".join(map(str, users.workload.levels))
        problem = ("--statistic", "kendall", "--levels", levels, *data, "--epsilon", EPSILON, "--seed", SEED)
        command = (
            sys.executable,
            "-m",
            "parley.launch.cli",
            "run",
            *problem,
            "--quiet",
            "--json",
            "--out",
            Path(name) / "run",
        )
        done = run(command, folder=ROOT)
    record = json.loads(done.output)
    found = Errors(
        who="Parley, `parley run`",
        mechanism=record["protocol"],
        histogram="",
        errors=np.array([record["estimate"] - users.truth]),
        seconds=done.seconds,
    )
    return [found]


def measure(users: int, trials: int, mechanisms: Sequence[str], kept: Path | None) -> Part:
    """Theirs, then ours."""
    part, people = Part(heads=HEADS, kept=kept), draw(users)
    for name, pins, program, wanted in (
        ("multi-freq", MULTI_FREQ, "multi_freq_histograms", mechanisms),
        ("pure-ldp", PURE, "pure_ldp_histograms", ("OUE", "HR")),
    ):
        cases: dict[Row, tuple[object, ...]] = {
            (NAMES[program], each): (people, program, each, trials) for each in wanted
        }
        part.add_theirs(name, pins, theirs, cases, NAMES[program], "xxhash")
    for name in ("frequency-subset", "auto"):
        part.add((f"Parley, {name}",), partial(ours, people, name, trials))
    part.add(("Parley, `parley run`",), partial(as_users_do, people))
    return part
