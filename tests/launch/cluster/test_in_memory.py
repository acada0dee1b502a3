"""Runs in memory: the folder of an ordinary run, the estimate of a run between processes, the same bytes again."""

import asyncio
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import ANALYST_NAME
from parley.emulator.transport.conditions import LINK_KINDS
from parley.emulator.transport.ports import Received
from parley.emulator.transport.virtual_network import VirtualBoard
from parley.emulator.wire.codec import pack
from parley.emulator.wire.messages import Event, Replies, Result
from parley.launch.api import coded_problem
from parley.launch.cli import run
from tests.launch.conftest import COMMAND, PROBLEM, Parley
from tests.launch.record_edits import chained, payloads_of

SMALL = ("--statistic", "kendall", "--levels", "2x2", "--epsilon", "1", "--protocol", "three-round", "--users", "6")
MEMORY = ("run", "--in-memory", *SMALL, "--processes", "3", "--seed", "5", "--quiet")


def messages(folder: Path) -> list[object]:
    return [record.message for record in TranscriptReader(folder / "transcript.parley")]


def replies(folder: Path) -> dict[tuple[int, str], bytes]:
    """What each node said in each round, without the signature that binds it to a run's name."""
    said = [each for each in messages(folder) if isinstance(each, Replies)]
    return {(each.round, each.node): b"".join(each.columns[name].tobytes() for name in each.columns) for each in said}


def result(folder: Path) -> Result:
    found = messages(folder)[-1]
    assert isinstance(found, Result)
    return found


@pytest.fixture(scope="module")
def quiet_estimate(tmp_path_factory: pytest.TempPathFactory) -> float:
    out = tmp_path_factory.mktemp("quiet") / "run"
    assert run([*MEMORY, "--out", str(out)]) == 0
    return result(out).estimate


def test_a_quiet_run_in_memory_says_what_processes_say(parley: Parley, finished: Path) -> None:
    said = parley(
        "run", "--in-memory", *PROBLEM, "--users", 301, "--processes", 2, "--seed", 7, "--out", "memory", "--json"
    )
    assert said.code == 0
    assert said.record["estimate"] == json.loads((finished / "result.json").read_text())["estimate"]
    assert replies(Path("memory")) == replies(finished)


@pytest.mark.parametrize("conditions", ["hostile", "lossy", "mobile", "partitioned"])
def test_its_folder_is_that_of_an_ordinary_run(parley: Parley, conditions: str, quiet_estimate: float) -> None:
    assert parley(*MEMORY, "--conditions", conditions, "--out", "memory").code == 0
    assert result(Path("memory")).estimate == quiet_estimate
    present = {path.name for path in Path("memory").iterdir()}
    wanted = {"transcript.parley", "witness.parley", "result.json", "trust.toml", "report.html", "logs", "state"}
    assert present == wanted
    verdicts = parley("audit", "memory", "--json").record
    assert {
        name: verdicts[name]["verdict"] for name in ("integrity", "authorship", "privacy", "result")
    } == dict.fromkeys(("integrity", "authorship", "privacy", "result"), "pass")
    again = parley("replay", "memory", "--role", "all", "--json")
    assert (again.code, again.record["identical"]) == (0, True)
    assert parley("report", "memory").code == 0
    assert "says announce" in Path("memory/logs/analyst.log").read_text()
    # Nobody signs with these keys again.
    assert [*Path("memory/state").glob("*.signing"), *Path("memory/state").glob("*/state.parley")] == []


def test_the_header_says_where_it_took_place(parley: Parley, finished: Path) -> None:
    parley(*MEMORY, "--out", "memory")
    assert TranscriptReader("memory/transcript.parley").header["medium"] == "memory"
    assert parley("show", "memory", "--json").record["medium"] == "memory"
    assert parley("show", finished, "--json").record["medium"] == "processes"
    assert "completed in memory after" in parley("show", "memory").out
    assert '"medium":"memory"' in Path("memory/report.html").read_text().replace(" ", "")


def test_a_record_cannot_be_passed_off_as_one_of_the_other_kind(parley: Parley, finished: Path) -> None:
    """Nobody signs the header, but the times below the signed heads tell where a run took place."""
    parley(*MEMORY, "--out", "memory")
    for folder, medium in ((Path("memory"), "processes"), (finished, "memory")):
        record, trust = folder / "transcript.parley", folder / "trust.toml"
        header = {**TranscriptReader(record).header, "medium": medium}
        edited = [pack(["header", header]), *payloads_of(record)[1:]]
        Path("edited.parley").write_bytes(chained(edited, TranscriptReader(record).version))
        said = parley("audit", "edited.parley", "--trust", trust, "--json")
        assert (said.code, said.record["integrity"]["verdict"]) == (1, "fail")
        assert "record 0" in said.record["integrity"]["reason"]
        assert "is not that of a run" in said.record["integrity"]["reason"]


KILLS = """
name = "kills"
seed = 3

[[fault]]
kind = "kill"
nodes = "node-0"
step = 9
seconds = 0.4

[[fault]]
kind = "power"
nodes = "node-1"
step = 11
seconds = 0.2

[[fault]]
kind = "kill"
nodes = "board"
step = 60
seconds = 1.0

[[fault]]
kind = "loss"
nodes = "node-2"
messages = ["replies"]
nth = [1, 2]
"""


@pytest.mark.parametrize("conditions", ["hostile", "kills.toml"])
def test_one_seed_one_record_to_the_byte(conditions: str, tmp_path: Path) -> None:
    (tmp_path / "kills.toml").write_text(KILLS)
    for number in (1, 2):
        arguments = (*COMMAND, *MEMORY, "--conditions", conditions, "--out", str(number))
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run(arguments, cwd=tmp_path, env=environment, check=True, stdout=subprocess.DEVNULL)
    for name in ("transcript.parley", "trust.toml", "witness.parley"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    one, two = (json.loads((tmp_path / number / "result.json").read_text()) for number in "12")
    assert {**one, "folder": None} == {**two, "folder": None}
    events = [each for each in messages(tmp_path / "1") if isinstance(each, Event)]
    assert {each.event for each in events} >= {"kill", "loss", "restart"}


def test_another_seed_another_order(parley: Parley) -> None:
    records = set()
    for number in range(4):
        Path("here.toml").write_text(f'name = "here"\nseed = {number}\n')
        parley(*MEMORY, "--conditions", "here.toml", "--out", str(number))
        records.add(Path(str(number), "transcript.parley").read_bytes())
    assert len(records) == 4
    assert len({result(Path(str(number))).estimate for number in range(4)}) == 1


RULES = {
    **{kind: f'kind = "{kind}"\nprobability = 0.3\nseconds = 0.2\nnodes = "node-*"' for kind in LINK_KINDS},
    "bandwidth": 'kind = "bandwidth"\nbytes_per_second = 2000.0',
    "hold": 'kind = "hold"\nnodes = "node-1"\nuntil = 1.0',
    "partition": 'kind = "partition"\nnodes = "node-1"\nuntil = 1.0',
    "straggler": 'kind = "straggler"\nnodes = "node-2"\nseconds = 0.5',
    "pause": 'kind = "pause"\nnodes = "*"\nrounds = [2]\nseconds = 2.0',
    "kill": 'kind = "kill"\nnodes = "*"\nrounds = [2]\nseconds = 0.5',
    "late": 'kind = "late"\nnodes = "node-*"\nseconds = 30.0',
    "power": 'kind = "power"\nnodes = "node-*"\nrounds = [2]\nseconds = 0.5',
}


@pytest.mark.parametrize("kind", RULES)
def test_every_condition_happens_in_virtual_time(parley: Parley, kind: str, quiet_estimate: float) -> None:
    Path("rule.toml").write_text(f'name = "one"\nseed = 1\n[[fault]]\n{RULES[kind]}\n')
    assert parley(*MEMORY, "--conditions", "rule.toml", "--out", "memory").code == 0
    assert kind in {each.event for each in messages(Path("memory")) if isinstance(each, Event)}
    assert result(Path("memory")).estimate == quiet_estimate


def test_a_full_disk_ends_the_run_with_a_closed_record(parley: Parley) -> None:
    Path("full.toml").write_text('name = "full"\n[[fault]]\nkind = "disk-full"\nnodes = "node-1"\nafter = 0.01\n')
    said = parley(*MEMORY, "--conditions", "full.toml", "--out", "memory")
    assert said.code == 3
    assert "node-1 ended with exit code 3" in said.err
    assert "cannot be written: No space left on device; nothing was sent" in Path("memory/logs/node-1.log").read_text()
    reader = TranscriptReader("memory/transcript.parley")
    reader.verify()
    assert reader.closing is not None
    assert reader.closing.outcome == "failed"


def test_a_node_that_is_killed_for_good_is_missing(parley: Parley) -> None:
    Path("kill.toml").write_text('[[fault]]\nkind = "kill"\nnodes = "node-1"\nrestart = false\nstep = 3\n')
    assert parley(*MEMORY, "--conditions", "kill.toml", "--out", "lost").code == 3
    said = parley(
        *MEMORY, "--conditions", "kill.toml", "--out", "quorum", "--quorum", "0.5", "--deadline", "60", "--json"
    )
    assert said.code == 0
    assert (said.record["users"], said.record["replied"]) == (6, 4)


@pytest.mark.parametrize(
    "more",
    [
        ("--users", "60", "--protocol", "split-and-mix", "--delta", "1e-6"),
        ("--users", "60", "--protocol", "shuffled", "--delta", "1e-6", "--seal"),
        ("--relays", "2"),
        ("--unsigned",),
        ("--process-per-user",),
    ],
    ids=lambda more: " ".join(more),
)
def test_shuffler_relays_and_whatever_else_a_run_has(parley: Parley, more: tuple[str, ...]) -> None:
    fewer = [each for each in MEMORY if "--process-per-user" not in more or each not in ("--processes", "3")]
    assert parley(*fewer, *more, "--out", "quiet").code == 0
    assert parley(*fewer, *more, "--conditions", "hostile", "--out", "memory").code == 0
    assert result(Path("memory")).estimate == result(Path("quiet")).estimate
    assert parley("replay", "memory", "--role", "all").code == 0


def test_wallets_are_kept_across_runs_in_memory(parley: Parley) -> None:
    created = parley("wallet", "create", "purse", "--users", 6, "--processes", 3, "--cap", 1)
    assert created.code == 0, created.err
    assert parley(*MEMORY, "--wallet", "purse", "--name", "first", "--out", "first").code == 0
    # What they had is given away.
    assert parley(*MEMORY, "--wallet", "purse", "--name", "second", "--out", "second").code != 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--in-memory", "--secure"), "--in-memory has no links and no ports"),
        (("--in-memory", "--port", "5000"), "--in-memory has no links and no ports"),
        (("--in-memory", "--watch"), "over before anybody could watch"),
        (("--conditions", "step.toml"), "kill at step 3 can only happen in virtual time; give --in-memory"),
        (("--conditions", "power.toml"), "power can only happen in virtual time; give --in-memory"),
    ],
)
def test_what_cannot_be_is_refused(parley: Parley, arguments: tuple[str, ...], sentence: str) -> None:
    Path("step.toml").write_text('[[fault]]\nkind = "kill"\nstep = 3\n')
    Path("power.toml").write_text('[[fault]]\nkind = "power"\n')
    said = parley("run", *SMALL, *arguments, "--out", "none")
    assert (said.code, Path("none").exists()) == (2, False)
    assert sentence in said.err


def test_faults_are_shown_by_their_kind(parley: Parley) -> None:
    parley(*MEMORY, "--conditions", "hostile", "--out", "memory")
    rows = parley("show", "memory", "--json", "--kind", "event").record["records"]
    assert {"loss", "duplicate", "reorder", "corrupt", "kill", "pause", "late"} <= {row["event"] for row in rows}
    assert all(row["what"].startswith(f"{row['event']}: ") for row in rows)
    text = parley("show", "memory", "--kind", "event").out
    assert "loss: up replies" in text
    assert "kill: fault" in text


def test_the_analyst_of_a_record_made_under_faults_is_replayed_live(parley: Parley) -> None:
    parley(*MEMORY, "--conditions", "hostile", "--out", "memory")
    suffered = [record for record in TranscriptReader("memory/transcript.parley") if record.sender == ANALYST_NAME]
    assert any(isinstance(record.message, Event) for record in suffered)
    said = parley("replay", "memory", "--live", "--json")
    assert (said.code, said.record["identical"], said.record["compared"]) == (0, True, 5)


async def test_from_python_and_inside_of_an_event_loop_too(tmp_path: Path) -> None:
    asked = coded_problem([0, 1, 2, 3, 1, 2], "kendall", levels="2x2")
    answers = [
        asked.run(epsilon=1.0, protocol="three-round", seed=5, processes=3, in_memory=True, out=tmp_path / name)
        for name in ("one", "two")
    ]
    assert answers[0].estimate == answers[1].estimate
    assert (tmp_path / "one/transcript.parley").read_bytes() == (tmp_path / "two/transcript.parley").read_bytes()


CROWD = ("run", "--in-memory", *SMALL[:-1], "24", "--process-per-user", "--seed", "5", "--quiet")
KILLED_BOARD = """
name = "killed board"
seed = 3

[[fault]]
kind = "kill"
nodes = "board"
step = {step}
seconds = 0.6
"""


@pytest.fixture
def slow_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that is slower than its users: their frames come together."""
    prompt = VirtualBoard.receive

    async def receive(self: VirtualBoard, timeout: float) -> list[Received]:
        await asyncio.sleep(0.1)
        return await prompt(self, timeout)

    monkeypatch.setattr(VirtualBoard, "receive", receive)


def batches(folder: Path) -> list[int]:
    """How many messages are in each record that holds several."""
    found = Counter(record.offset for record in TranscriptReader(folder / "transcript.parley"))
    return [count for count in found.values() if count > 1]


def test_everybody_reads_batches(parley: Parley, slow_board: None) -> None:
    assert parley(*CROWD, "--out", "crowd").code == 0
    assert sum(batches(Path("crowd"))) == 3 * 24
    verdicts = parley("audit", "crowd", "--json").record
    for name in ("integrity", "authorship", "rounds", "privacy", "result"):
        assert verdicts[name]["verdict"] == "pass", verdicts[name]
    again = parley("replay", "crowd", "--role", "all", "--json")
    assert (again.code, again.record["identical"]) == (0, True)
    assert parley("diff", "crowd", "crowd").code == 0
    assert parley("show", "crowd").code == 0
    assert parley("export", "crowd", "--out", "rows.csv").code == 0
    assert len(Path("rows.csv").read_text().splitlines()) > 3 * 24
    assert parley("report", "crowd").code == 0


@pytest.mark.parametrize("step", [62, 66, 70, 74])
def test_a_board_that_is_killed_around_a_batch_loses_nothing(parley: Parley, slow_board: None, step: int) -> None:
    Path("kills.toml").write_text(KILLED_BOARD.format(step=step))
    assert parley(*CROWD, "--out", "quiet").code == 0
    assert parley(*CROWD, "--out", "killed", "--conditions", "kills.toml").code == 0
    assert any(isinstance(each, Event) and each.event == "kill" for each in messages(Path("killed")))
    assert batches(Path("killed"))
    assert result(Path("killed")).estimate == result(Path("quiet")).estimate
    assert replies(Path("killed")) == replies(Path("quiet"))
