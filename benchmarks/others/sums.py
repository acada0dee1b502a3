"""Three rounds of vector sums with many parties: Flower's simulation engine, MPyC and Parley.

Each party hears and answers three times. With Flower and MPyC every message is 256 numbers. Parley computes more (users
randomize, every message is hashed and on record before anybody receives it, a report is written) and sends less (a
vector travels as the few bytes it is expanded from, the last reply is one number).
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.others.environment import Environment
from benchmarks.others.rows import PROGRAMS, ROOT, Part, Row
from benchmarks.others.watched import Finished, Unavailable, run
from benchmarks.processes import read_course
from parley.emulator.record.summary import summarize
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Replies

ROUNDS, ENTRIES, LEVELS = 3, 256, "16x16"
FLOWER = ("flwr[simulation]==1.41.0", "ray==2.55.1")
MPYC = ("mpyc==0.11", "numpy==2.4.6")
# From so many parties on MPyC's pseudorandom secret sharing, which has a key for every subset, does not end.
FEW = 12
HEADS = ("who", "parties", "processes", "seconds", "rounds s", "messages", "peak MiB")
FLOWER_NAME, MPYC_WAYS, FEW_PROCESSES = "Flower, simulation engine", ("open", "shared"), 2


@dataclass(frozen=True, kw_only=True)
class Sums:
    """One way to do it, measured twice: alone for the time, and watched for the memory."""

    who: str
    parties: int
    seconds: float
    rounds: float
    messages: int
    mebibytes: float
    processes: int

    def row(self) -> Row:
        return (
            self.who,
            self.parties,
            self.processes,
            self.seconds,
            self.rounds,
            self.messages,
            self.mebibytes,
        )


def flower(where: Environment, parties: int) -> list[Sums]:
    """Every client is a task for Ray's workers, of which there are as many as cores."""
    command = (where.python, PROGRAMS / "flower_sums.py", parties, ENTRIES, ROUNDS)
    return _twice(FLOWER_NAME, where, parties, command)


def mpyc(where: Environment, parties: int, how: str) -> list[Sums]:
    """Every party is a process with a link to every other."""
    options = () if parties < FEW else ("--no-prss",)
    command = (where.python, PROGRAMS / "mpyc_sums.py", how, ENTRIES, ROUNDS, "-M", parties, "--no-log", *options)
    return _twice(f"MPyC, {how}", where, parties, command)


def _twice(who: str, where: Environment, parties: int, command: Sequence[object]) -> list[Sums]:
    alone = run(command, variables=where.variables(), folder=where.home)
    watched = run(command, variables=where.variables(), folder=where.home, watch=True)
    return [finished(who, parties, alone, watched)]


def finished(who: str, parties: int, alone: Finished, watched: Finished) -> Sums:
    """The figures, if the sum is right."""
    record = alone.record
    if record["total"] != parties * (parties + 1) / 2:
        raise Unavailable(f"the sum over {parties} parties came out as {record['total']:g}")
    return Sums(
        who=who,
        parties=parties,
        seconds=alone.seconds,
        rounds=record["rounds"],
        messages=record["messages"],
        mebibytes=watched.mebibytes,
        processes=watched.most_processes,
    )


def parley(parties: int, processes: int | None, levels: str = LEVELS) -> list[Sums]:
    """A process for every user (None), or users in a few processes."""
    share = ("--process-per-user",) if processes is None else ("--processes", processes)
    problem = ("--statistic", "kendall", "--levels", levels, "--users", parties, "--epsilon", 4, "--seed", 1)
    command = (
        sys.executable,
        "-m",
        "parley.launch.cli",
        "run",
        *problem,
        "--protocol",
        "three-round",
        *share,
        "--quiet",
    )
    with TemporaryDirectory() as name:
        alone, watched = (
            run((*command, "--out", Path(name) / each), folder=ROOT, watch=each == "watched")
            for each in ("alone", "watched")
        )
        transcript = Path(name) / "alone" / "transcript.parley"
        course, messages = read_course(transcript, 0.0), count(transcript)
    found = Sums(
        who="Parley, a process for every user" if processes is None else f"Parley, users in {processes} processes",
        parties=parties,
        seconds=alone.seconds,
        rounds=sum(course.rounds),
        messages=messages,
        mebibytes=watched.mebibytes,
        processes=watched.most_processes,
    )
    return [found]


def count(transcript: Path) -> int:
    """Replies as they were sent, and each broadcast once for every node that answered it."""
    summary = summarize(TranscriptReader(transcript))
    return summary.kinds[Replies.kind] + len(summary.rounds) * len(summary.sent)


def beside_flower(parties: Sequence[int], kept: Path | None) -> Part:
    """Flower, then Parley with a process for every user and with users in a few."""
    part = Part(heads=HEADS, kept=kept)
    part.add_theirs("flower", FLOWER, flower, {(FLOWER_NAME, n): (n,) for n in parties}, "flwr", "ray")
    for n in parties:
        for processes in (None, FEW_PROCESSES):
            part.add(("Parley", n), partial(parley, n, processes))
    return part


def beside_mpyc(parties: Sequence[int], kept: Path | None) -> Part:
    """MPyC both ways, then Parley with a process for every user."""
    part = Part(heads=HEADS, kept=kept)
    cases: dict[Row, tuple[int, str]] = {(f"MPyC, {how}", n): (n, how) for how in MPYC_WAYS for n in parties}
    part.add_theirs("mpyc", MPYC, mpyc, cases, "mpyc")
    for n in parties:
        part.add(("Parley", n), partial(parley, n, None))
    return part
