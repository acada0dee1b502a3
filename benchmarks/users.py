"""Many users on one machine: whole runs, the bare loops beside them, and the audit of all users.

    python -m benchmarks.users [--users 1000000,10000000,100000000] [--write] [--json]

`parley run --statistic kendall --levels 16x16 --epsilon 1 --protocol two-round-tuned`, default processes, on record and
with its report. `bare` does the same look-ups and tallies for the same users in one process and on one core, without
nodes, messages, checks or a record; its counts must be those of the run. Processor time is that of all processes
together, and moves less on a busy machine. With --write the tables go to
docs/performance.md.
"""

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np

from benchmarks.page import installed, machine, table, write_block
from parley.emulator.coins import coins, question_of, terms_of
from parley.emulator.record.conversation import Conversation, listen, tallies
from parley.emulator.record.witness import Witness
from parley.emulator.round import Tally
from parley.protocols.registry import build

ROOT = Path(__file__).resolve().parent.parent
BLOCK = 1 << 16
STAGES = ("start", "data", "protocol", "processes", "rounds", "answer", "report")
# What has nothing to do with the protocol.
ASIDE = ("start", "data", "answer", "report")
KINDS = ("node", "board", "analyst", "launcher")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """One number of users: seconds, bytes, and MiB of each kind of process."""

    users: int
    seconds: dict[str, float]
    used: dict[str, float]
    mebibytes: dict[str, float]
    processor: dict[str, float]
    bytes_a_reply: float
    bare_seconds: float
    audit_seconds: float
    audit_processor: float

    @property
    def whole(self) -> float:
        return self.seconds["whole"]

    @property
    def run_processor(self) -> float:
        """Seconds of processor time of all processes of the run."""
        return self.processor["launcher"] + self.processor["others"]

    def row(self) -> tuple[object, ...]:
        return (
            self.users,
            self.whole,
            self.run_processor,
            self.bare_seconds,
            self.run_processor / self.bare_seconds,
            self.bare_seconds / self.users * 1e9,
            self.bytes_a_reply,
            self.audit_seconds,
            self.audit_processor,
            self.audit_processor / self.run_processor,
            *(self.mebibytes[kind] for kind in KINDS),
        )

    def stages(self) -> tuple[object, ...]:
        return (self.users, *(self.used[stage] for stage in STAGES), sum(self.used[stage] for stage in ASIDE))


HEADS = (
    *("users", "run s", "its processor s", "bare loops, processor s", "ratio", "bare ns per user", "B per reply"),
    *("audit s", "its processor s", "ratio to the run"),
    *(f"{kind} MiB" for kind in KINDS),
)
STAGE_HEADS = ("users", *STAGES, f"{', '.join(ASIDE[:-1])} and {ASIDE[-1]}")


def measure(users: int, home: Path) -> Figures:
    """A run, the bare loops and an audit, one after the other."""
    folder = home / "run"
    run = ("-m", "benchmarks.command", "--users", str(users), "--out", str(folder), "--quiet", "--json")
    said = json.loads(_python(*run).splitlines()[-1])
    result = json.loads((folder / "result.json").read_text())
    bare_seconds = bare(folder)
    began, before = time.perf_counter(), _processor_seconds()
    verdicts = json.loads(_python("-m", "parley.launch.cli", "audit", str(folder), "--quiet", "--json"))
    audit_seconds = time.perf_counter() - began
    if not verdicts["ok"] or verdicts["privacy"]["users"] != users or result["replied"] != users:
        raise SystemExit(f"the run of {users} users is not good: {verdicts}")
    return Figures(
        users=users,
        **said,
        bytes_a_reply=(folder / "transcript.parley").stat().st_size / users,
        bare_seconds=bare_seconds,
        audit_seconds=audit_seconds,
        audit_processor=_processor_seconds() - before,
    )


def bare(folder: Path) -> float:
    """Seconds of processor time to draw and tally the replies of a recorded run once more, which must be its own."""
    witness, conversation = Witness.load(folder / "witness.parley"), listen(folder / "transcript.parley", build)
    protocol, recorded = conversation.protocol, None
    assert protocol is not None
    began = time.process_time()
    counted = _loops(conversation, witness)
    seconds = time.process_time() - began
    recorded = tallies(conversation, protocol)
    for number, tally in counted.items():
        for name, total in tally.sums.items():
            if not np.array_equal(total, recorded[number].sums[name]):
                raise SystemExit(f"the bare loops count other replies in round {number} than the record holds")
    return seconds


def _loops(conversation: Conversation, witness: Witness) -> dict[int, Tally]:
    """Draw and count, block by block: everybody speaks in one round of the two."""
    assert conversation.protocol is not None
    assert conversation.setup is not None
    found: dict[int, Tally] = {}
    for step in conversation.protocol.rounds:
        announce = conversation.questions[step.number]
        flip = partial(coins, witness.key, question_of(terms_of(conversation.setup), announce))
        for start in range(0, len(witness.inputs), BLOCK):
            inputs = witness.inputs[start : start + BLOCK]
            users, columns = step.draw(announce.broadcast, inputs, start, flip)
            tally = step.tally(announce.broadcast, step.complete(announce.broadcast, users, columns))
            found[step.number] = found[step.number] + tally if step.number in found else tally
    return found


def _processor_seconds() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(*arguments: str) -> str:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**installed(), "PYTHONPATH": path},
    )
    return done.stdout


@click.command()
@click.option("--users", default="1000000,10000000", show_default=True, help="Numbers of users, with commas.")
@click.option("--write", is_flag=True, help="Write the tables into docs/performance.md.")
@click.option("--json", "as_json", is_flag=True)
def main(users: str, write: bool, as_json: bool) -> None:
    load, found = os.getloadavg()[0], list[Figures]()
    for each in users.split(","):
        with TemporaryDirectory() as home:
            found.append(measure(int(each), Path(home)))
        print(found[-1], file=sys.stderr)
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    text = "\n\n".join(
        (
            table(HEADS, [each.row() for each in found]),
            "Processor seconds of the launcher, stage by stage:",
            table(STAGE_HEADS, [each.stages() for each in found]),
            machine(f"python -m benchmarks.users --users {users} --write", load),
        )
    )
    print(text)
    if write:
        write_block("users", text)


if __name__ == "__main__":
    main()
