"""Seeded runs of random protocols under random conditions, with random kills, a heckler at the board's door, treachery.

    python -m benchmarks.chaos [--runs N] [--seed S] [--jobs J] [--write docs/reliability.md] [--json]

Each run is `parley run` as a person would start it. It must either complete, with a passing audit, every reply the one
that the witness gives, and, unless somebody was killed for good, every reply and the estimate of the run in memory; or
fail with exit code 3 and a record that is whole. A run that takes longer than LIMIT_SECONDS counts as hung.

With some of the runs goes another one with an act of treachery (benchmarks/treachery.py).
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from benchmarks.deeds import Deed
from benchmarks.reference.simulate_shuffled import shuffled_conversation
from benchmarks.scenes import Scene, as_toml, heckles, make_scene, speakable
from benchmarks.treachery import draw_kind, make_act, perform_act
from parley.emulator.audit.report import audit
from parley.emulator.errors import ParleyError
from parley.emulator.record.conversation import listen
from parley.emulator.record.replay import replay_users
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.transport.conditions import LINK_KINDS
from parley.emulator.transport.ports import SendTimeout
from parley.emulator.transport.zmq.ports import connect_reporter
from parley.emulator.wire.messages import Event, Message, Replies, Result
from parley.emulator.wire.security import read_trust
from parley.nodes.common import read_addresses
from parley.protocols.registry import build

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 300.0
# What the board says when it drops one; who merely heckles has no seat to say it of.
SECOND_DRAW = "answers twice, with other bytes"
BEGIN, END = "<!-- chaos: begin -->", "<!-- chaos: end -->"


@dataclass
class Outcome:
    """What became of one run; `wrong` says what must not be."""

    scene: Scene
    code: int = -1
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    heckles: int = 0
    dropped: int = 0
    refused: int = 0
    replies: int = 0
    lost: int = 0
    hung: bool = False
    second_draws: int = 0
    deed: Deed | None = None
    wrong: list[str] = field(default_factory=list)


async def heckle(scene: Scene, addresses: Path, process: "subprocess.Popen[str]") -> int:
    """Speak at the board's door while the run lasts; how many frames were taken. With keys, none."""
    while not addresses.exists():
        if process.poll() is not None:
            return 0
        await asyncio.sleep(0.05)
    port = connect_reporter(read_addresses(addresses), patience=0.2)
    sent = 0
    try:
        for frame in heckles(scene):
            if process.poll() is not None:
                return sent
            with suppress(SendTimeout):
                await port.send(frame)
                sent += 1
            await asyncio.sleep(0.05)
    finally:
        port.close()
    return sent


def play(scene: Scene, folder: Path) -> Outcome:
    """Run a scene and judge it."""
    outcome = Outcome(scene)
    (folder / "conditions.toml").write_text(as_toml(scene))
    command = [sys.executable, "-m", "parley.launch.cli", "run", *scene.arguments(folder)]
    began = time.monotonic()
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=said, text=True, env={**os.environ, **threads}
        )
        try:
            limited = asyncio.wait_for(heckle(scene, folder / "run/state/addresses.json", process), LIMIT_SECONDS)
            outcome.heckles = asyncio.run(limited)
            outcome.code = process.wait(LIMIT_SECONDS)
        except (TimeoutError, subprocess.TimeoutExpired):
            outcome.hung = True
            outcome.wrong.append("it hung")
        finally:
            process.kill()
            process.wait()
    outcome.seconds = time.monotonic() - began
    if not outcome.wrong:
        try:
            judge(outcome, folder / "run")
        except ParleyError as error:
            outcome.wrong.append(f"its record cannot be read: {error}")
    return outcome


def judge(outcome: Outcome, folder: Path) -> None:
    """What the record says, against what it must say."""
    reader = TranscriptReader(folder / "transcript.parley")
    messages = [record.message for record in reader]
    count_events(outcome, messages)
    ended = None if reader.closing is None else reader.closing.outcome
    if (outcome.code, ended) not in ((0, "completed"), (3, "failed")):
        outcome.wrong.append(f"exit code {outcome.code} with a record closed as {ended}")
    if outcome.code == 3 and not outcome.scene.doomed:
        outcome.wrong.append("it failed although everybody came back")
    found, witness = listen(folder / "transcript.parley", build), Witness.load(folder / "witness.parley")
    if found.setup is not None:
        replayed = replay_users(found, witness)
        outcome.replies = replayed.compared
        if not replayed.identical:
            outcome.wrong.append(f"a reply that is not the witness's: {replayed.difference}")
    if outcome.code == 0:
        keys = read_trust(folder / "trust.toml")
        report = audit(folder / "transcript.parley", build, witness=witness, keys=keys)
        if not report.ok:
            outcome.wrong.append(f"the audit fails: {report.record()}")
        if not outcome.scene.doomed and found.protocol is not None:
            through = shuffled_conversation if found.protocol.claim.trusts == "shuffler" else conversation
            expected = [said for _, said in through(found.protocol, witness.inputs, witness.key)]
            outcome.lost = spoken(expected) - spoken(messages)
            if outcome.lost or estimates(messages) != estimates(expected):
                outcome.wrong.append(f"{outcome.lost} replies lost, or another estimate than in memory")


def count_events(outcome: Outcome, messages: list[Message]) -> None:
    """Faults by kind, each once: the launcher may have reported one twice."""
    events = [message for message in messages if isinstance(message, Event)]
    once = {(each.event, each.detail): each for each in events if each.node == "launcher"}
    for each in [*once.values(), *(each for each in events if each.event in LINK_KINDS)]:
        outcome.faults[each.event] += 1
        if each.event == "kill":
            outcome.kills[re.sub(r"-\d+", "", each.detail.split()[2])] += 1
    outcome.dropped = sum(each.event == "drop" for each in events)
    outcome.second_draws = sum(each.event == "drop" and SECOND_DRAW in each.detail for each in events)
    if outcome.second_draws:
        outcome.wrong.append(f"{outcome.second_draws} second draws")
    # Each of these says how many there were so far, for its cause and one life of the board.
    turned_away = Counter[str]()
    for each in events:
        if each.event == "refused" and not each.detail.startswith("connection broken off"):
            cause, count = each.detail.split(": ")
            turned_away[cause] = max(turned_away[cause], int(count.split()[0]))
    outcome.refused = turned_away.total()


def spoken(messages: list[Message]) -> int:
    return sum(len(message.users) for message in messages if isinstance(message, Replies))


def estimates(messages: list[Message]) -> list[float]:
    return [message.estimate for message in messages if isinstance(message, Result)]


def perform(scene: Scene, folder: Path) -> Outcome:
    """One run in a folder of its own, and the act of treachery that goes with it."""
    place = folder / str(scene.seed)
    place.mkdir()
    outcome = play(scene, place)
    kind = draw_kind(scene.seed)
    if kind:
        (place / "act").mkdir()
        links = place / "links.toml"
        links.write_text(as_toml(scene, processes=False))
        outcome.deed = perform_act(make_act(scene.seed, kind, speakable()), place / "act", links)
        outcome.wrong += [f"{kind}: {each}" for each in outcome.deed.wrong]
    return outcome


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """The figures of all runs."""

    def total(name: str) -> int:
        return sum(getattr(each, name) for each in outcomes)

    deeds = [each.deed for each in outcomes if each.deed is not None]

    def of_deeds(name: str) -> int:
        return sum(getattr(each, name) for each in deeds)

    return {
        "runs": len(outcomes),
        "completed": sum(each.code == 0 for each in outcomes),
        "failed cleanly": sum(each.code == 3 and not each.wrong for each in outcomes),
        "wrong": sum(bool(each.wrong) for each in outcomes),
        "hung": total("hung") + of_deeds("hung"),
        "second draws": total("second_draws") + of_deeds("second_draws"),
        "protocols": len({each.scene.protocol for each in outcomes}),
        "encrypted": sum(each.scene.secure for each in outcomes),
        "faults": dict(sorted(sum((each.faults for each in outcomes), Counter()).items())),
        "kills": dict(sorted(sum((each.kills for each in outcomes), Counter()).items())),
        "bad frames sent by the heckler": total("heckles"),
        "frames dropped with their cause": total("dropped"),
        "connections without a key refused": total("refused"),
        "replies checked": total("replies"),
        "replies lost": total("lost"),
        "seconds of the longest run": round(max(each.seconds for each in outcomes), 1),
        "runs with an act of treachery": len(deeds),
        "acts": dict(sorted(Counter(each.act.kind for each in deeds).items())),
        "replies among them, on the wire": of_deeds("wire"),
        "questions that must not be answered and were not": of_deeds("refused"),
        "forgeries, swaps and rewritten records shown": of_deeds("forged"),
        "of these found and named": of_deeds("named"),
        "replies dropped by a board": of_deeds("dropped"),
        "of these found by their nodes": of_deeds("found"),
    }


def table(figures: dict[str, Any]) -> str:
    """The figures as Markdown."""
    rows = ["| | |", "|---|---|"]
    for name, value in figures.items():
        text = ", ".join(f"{kind} {count}" for kind, count in value.items()) if isinstance(value, dict) else value
        rows.append(f"| {name} | {text} |")
    return "\n".join(rows)


def write_table(path: Path, text: str) -> None:
    """Put the table between its two marks."""
    before, rest = path.read_text().split(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")


def perform_all(runs: int, seed: int, jobs: int, folder: Path) -> list[Outcome]:
    """Every run, several at a time; a line for each that went wrong."""
    choices, outcomes = speakable(), list[Outcome]()
    with ThreadPoolExecutor(jobs) as pool:
        scenes = [make_scene(number, choices) for number in range(seed, seed + runs)]
        for outcome in pool.map(lambda scene: perform(scene, folder), scenes):
            outcomes.append(outcome)
            scene, kept = outcome.scene, folder / str(outcome.scene.seed)
            verdict = f"{'; '.join(outcome.wrong)} (see {kept})" if outcome.wrong else f"exit code {outcome.code}"
            deed = outcome.deed
            act = "" if deed is None else f" and {deed.act.kind} with {deed.act.protocol}, {deed.seconds:.1f} s"
            line = f"{scene.seed}: {scene.protocol}, {scene.processes} nodes, {outcome.seconds:.1f} s{act}: {verdict}"
            click.echo(line, err=True)
    return outcomes


@click.command()
@click.option("--runs", default=200, show_default=True, help="How many runs.")
@click.option("--seed", default=1, show_default=True, help="Seed of the first run; the others follow.")
@click.option("--jobs", default=2, show_default=True, help="Runs at a time.")
@click.option("--write", type=click.Path(path_type=Path), help="Put the table into this page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(runs: int, seed: int, jobs: int, write: Path | None, as_json: bool) -> None:
    """Put runs under chaos and count what happened."""
    folder = Path(tempfile.mkdtemp(prefix="parley-chaos-"))
    outcomes = perform_all(runs, seed, jobs, folder)
    figures = summary(outcomes)
    click.echo(json.dumps(figures, indent=2) if as_json else table(figures))
    if write is not None:
        write_table(write, table(figures))
    sys.exit(1 if figures["wrong"] else 0)


if __name__ == "__main__":
    main()
