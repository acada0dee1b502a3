"""Real processes under every ready-made condition, with kills: the same estimate as a quiet run, or a clean failure.

Each run is `parley run` as a person would start it, with four user nodes. Kills come on top
of the faults of the conditions: of user nodes, of the analyst and of the board, each when a round is opened, and of
one user node while users are still joining.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event

from parley.emulator.audit.report import audit
from parley.emulator.errors import ParleyError
from parley.emulator.record.conversation import listen
from parley.emulator.record.replay import replay_users
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.conditions import LINK_KINDS
from parley.emulator.wire import messages as wire
from parley.emulator.wire.security import read_trust
from parley.launch.cluster.fault_driver import READY_MADE
from parley.launch.settings import GOOD, UNFINISHED
from parley.launch.testkit.target import Target
from parley.launch.testkit.verdicts import Effort, Said, Step, Verdict, passed
from parley.protocols.registry import build

CONDITIONS: dict[Effort, tuple[str, ...]] = {
    "quick": ("lossy",),
    "usual": tuple(sorted(each.stem for each in READY_MADE.glob("*.toml"))),
    "thorough": tuple(sorted(each.stem for each in READY_MADE.glob("*.toml"))),
}
SEEDS: dict[Effort, tuple[int, ...]] = {"quick": (1,), "usual": (1,), "thorough": (1, 2, 3)}
QUIET = "quiet"
FAULTS = (*LINK_KINDS, "pause", "kill", "late")
USERS, PROCESSES, EPSILON = 120, 4, 1.0
LIMIT_SECONDS = 180.0
# Runs wait more than they compute.
AT_ONCE = 3
SHOW_SECONDS, LOOK_SECONDS, LEAVE_SECONDS = 0.5, 0.05, 20.0


@dataclass
class Ran:
    """What became of one run; `wrong` says what must not be."""

    conditions: str
    seed: int
    folder: Path
    code: int = -1
    seconds: float = 0.0
    estimate: float | None = None
    replies: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    wrong: str = ""


def judge(target: Target, effort: Effort) -> Iterator[Said]:
    """A verdict for each of the conditions."""
    place = Path(tempfile.mkdtemp(prefix="parley-test-"))
    names = [(QUIET, seed) for seed in SEEDS[effort]] + [
        (each, seed) for each in CONDITIONS[effort] for seed in SEEDS[effort]
    ]
    finished: dict[tuple[str, int], Ran] = {}
    keep, stop = False, Event()
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        running = {pool.submit(perform, target, name, seed, place / f"{name}-{seed}", stop) for name, seed in names}
        while running:
            done, running = wait(running, timeout=SHOW_SECONDS, return_when=FIRST_COMPLETED)
            for each in done:
                ran = each.result()
                finished[ran.conditions, ran.seed] = ran
            yield Step(f"processes: {len(finished)} of {len(names)} runs", len(finished) / len(names))
        for name in (QUIET, *CONDITIONS[effort]):
            verdict = verdict_of(target, [finished[name, seed] for seed in SEEDS[effort]], finished)
            keep = keep or verdict.outcome == "fail"
            yield verdict
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
        if not keep:
            shutil.rmtree(place, ignore_errors=True)


def conditions_text(name: str, target: Target) -> str:
    """A ready-made file with kills added, each when a round is opened, and of
    one user node while users are still joining."""
    last = len(target.first.protocol.rounds)
    kills = [("node-1", 1), ("analyst", last), ("board", (last + 1) // 2), ("node-3", last), ("node-2", 0)]
    if target.trusts_shuffler:
        kills.append((SHUFFLER_NAME, 1))
    # In round 0 users are still joining: however short a run is, it waits for that one.
    rules = "".join(
        f'\n[[fault]]\nkind = "kill"\nnodes = "{victim}"\nseconds = 0.2\n'
        + (f"rounds = [{number}]\n" if number else "")
        for victim, number in kills
    )
    return (READY_MADE / f"{name}.toml").read_text() + rules


def perform(target: Target, name: str, seed: int, place: Path, stop: Event) -> Ran:
    """One run as a process of its own, and what its record says; `stop` breaks it off."""
    ran = Ran(name, seed, place / "run")
    place.mkdir(parents=True)
    command = arguments(target, seed)
    if name != QUIET:
        (place / "conditions.toml").write_text(conditions_text(name, target))
        command += ["--conditions", str(place / "conditions.toml")]
    command += ["--out", str(ran.folder), "--quiet", "--deadline", "60"]
    began = time.monotonic()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with (place / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "parley.launch.cli", "run", *command], stdout=said, stderr=said, env=environment
        )
        try:
            while process.poll() is None and not stop.wait(LOOK_SECONDS):
                if time.monotonic() - began > LIMIT_SECONDS:
                    ran.wrong = f"it hung for {LIMIT_SECONDS:g} s"
                    break
            if stop.is_set():
                ran.wrong = "it was broken off"
                # It ends its own nodes.
                process.terminate()
                process.wait(LEAVE_SECONDS)
        finally:
            process.kill()
            ran.code = process.wait()
    ran.seconds = time.monotonic() - began
    if not ran.wrong:
        try:
            look_at(ran)
        except (ParleyError, OSError) as error:
            lines = (place / "said").read_text().strip().splitlines()
            ran.wrong = f"exit code {ran.code} and no usable record ({error!s:.120}): {lines[-1] if lines else ''}"
    return ran


def arguments(target: Target, seed: int) -> list[str]:
    """The problem and the protocol, as they are typed."""
    case = target.case(target.problems[0], EPSILON, USERS)
    problem = [*target.flags, *case.flags, "--epsilon", f"{case.epsilon:g}", "--users", str(min(USERS, case.users))]
    return [*problem, "--processes", str(PROCESSES), "--seed", str(seed)]


def look_at(ran: Ran) -> None:
    """The record against the witness, and the audit's word about it."""
    transcript = ran.folder / "transcript.parley"
    reader = TranscriptReader(transcript)
    messages = [record.message for record in reader]
    ended = None if reader.closing is None else reader.closing.outcome
    ran.faults = Counter(each.event for each in messages if isinstance(each, wire.Event) and each.event in FAULTS)
    if (ran.code, ended) not in ((GOOD, "completed"), (UNFINISHED, "failed")):
        ran.wrong = f"exit code {ran.code} with a record that is closed as {ended}"
        return
    witness = Witness.load(ran.folder / "witness.parley")
    found = listen(transcript, build)
    if found.setup is not None:
        replayed = replay_users(found, witness)
        ran.replies = replayed.compared
        if not replayed.identical:
            ran.wrong = f"a reply is not the one that the witness gives: {replayed.difference}"
            return
    if ran.code == GOOD:
        (ran.estimate,) = [each.estimate for each in messages if isinstance(each, wire.Result)]
        report = audit(transcript, build, witness=witness, keys=read_trust(ran.folder / "trust.toml"))
        if not report.ok:
            failures = {name: report.record()[name].get("reason") for name in report.named("fail")}
            ran.wrong = f"the audit fails: {failures}"


def verdict_of(target: Target, runs: list[Ran], finished: dict[tuple[str, int], Ran]) -> Verdict:
    """What the runs under one of the conditions say, against the quiet runs with the same seeds."""
    name = runs[0].conditions
    check = "a quiet run" if name == QUIET else f"{name}, with kills"
    for ran in runs:
        quiet = finished[QUIET, ran.seed].estimate
        if not ran.wrong and ran.code == GOOD and quiet is not None and ran.estimate != quiet:
            ran.wrong = f"the estimate is {ran.estimate!r}; that of the quiet run with the same coins is {quiet!r}"
        if not ran.wrong and name == QUIET and ran.code != GOOD:
            ran.wrong = "the run fails although nothing disturbs it"
        if ran.wrong:
            command = " ".join(["parley run", *arguments(target, ran.seed)])
            conditions = ran.folder.with_name("conditions.toml")
            repeat = command if name == QUIET else f"{command} --conditions {conditions}"
            evidence = {"folder": str(ran.folder), "exit_code": ran.code}
            return Verdict(check=check, outcome="fail", says=ran.wrong, repeat=repeat, evidence=evidence)
    faults = sum((ran.faults for ran in runs), Counter[str]())
    clean = sum(ran.code != GOOD for ran in runs)
    many = faults.total()
    same = "the estimate is that of the quiet run" if name != QUIET else f"{PROCESSES} nodes, {USERS} users"
    ended = same if not clean else f"{clean} of {len(runs)} runs failed cleanly"
    says = f"{ended}; the audit is good" + (f"; {many} faults, {faults['kill']} kills" if name != QUIET else "")
    verdict = passed(check, says, faults=dict(faults), replies=sum(ran.replies for ran in runs), failed_cleanly=clean)
    return replace(verdict, seconds=sum(ran.seconds for ran in runs))
