"""`parley run` end to end: real processes, and the same replies as in memory however the users are shared out."""

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Message, Ready, Replies, Result
from parley.launch.problem import ProblemFlags, make_problem
from parley.launch.results.folder import choose_folder
from tests.launch.conftest import PROBLEM, Parley

FIELDS = [
    *("protocol", "title", "statistic", "users", "replied", "epsilon", "delta", "rounds", "estimate", "predicted_rmse"),
    *("interval95", "interval95_noise", "hidden", "hidden_error", "possible", "measured", "truth", "truth_unbinned"),
    *("error", "bytes_up", "bytes_down", "seconds", "seed", "version", "question", "source"),
]
FLAGS = ProblemFlags(
    statistic="kendall",
    levels="4x4",
    kernel=None,
    users=301,
    synthetic=None,
    epsilon=4.0,
    seed=7,
    protocol="three-round",
)


def replies(messages: Iterable[Message]) -> dict[tuple[int, int], bytes]:
    """Each reply's bytes by (round, user), whatever frame it came in."""
    found: dict[tuple[int, int], bytes] = {}
    for message in messages:
        if isinstance(message, Replies):
            for row, user in enumerate(message.users):
                place = (message.round, int(user))
                assert place not in found
                found[place] = b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
    return found


def recorded(folder: Path) -> list[Message]:
    return [record.message for record in TranscriptReader(folder / "transcript.parley")]


def estimates(messages: list[Message]) -> list[float]:
    return [message.estimate for message in messages if isinstance(message, Result)]


@pytest.fixture(scope="module")
def in_memory() -> list[Message]:
    problem = make_problem(FLAGS)
    protocol = problem.protocol("three-round", FLAGS.epsilon, seed=FLAGS.seed)
    return [message for _, message in conversation(protocol, problem.inputs, key_from_seed(7))]


@pytest.mark.parametrize("processes", [1, 7])
def test_sharding_changes_no_byte(parley: Parley, in_memory: list[Message], processes: int) -> None:
    said = parley("run", *PROBLEM, "--users", 301, "--processes", processes, "--seed", 7, "--quiet", "--out", "run")
    assert said.code == 0, said.err
    messages = recorded(Path("run"))
    assert len(replies(messages)) == 3 * 301
    assert replies(messages) == replies(in_memory)
    assert estimates(messages) == estimates(in_memory)


def test_two_processes_change_no_byte(finished: Path, in_memory: list[Message]) -> None:
    assert replies(recorded(finished)) == replies(in_memory)
    assert estimates(recorded(finished)) == estimates(in_memory)


def test_result_record(finished: Path) -> None:
    result = json.loads((finished / "result.json").read_text())
    assert list(result) == FIELDS
    assert result["protocol"] == "three-round"
    assert result["statistic"] == "kendall"
    assert (result["users"], result["replied"], result["seed"]) == (301, 301, 7)
    assert result["rounds"] == {"declared": 3, "observed": 3}
    assert result["truth"] == make_problem(FLAGS).truth()
    assert result["error"] == result["estimate"] - result["truth"]
    assert abs(result["error"]) < 6 * result["predicted_rmse"]
    low, high = result["interval95"]
    assert result["possible"] == [-1, 1]
    assert -1 <= low <= min(max(result["estimate"], -1), 1) <= high <= 1
    assert result["bytes_up"] > 0
    assert result["bytes_down"] > 0


def test_private_files_are_private(finished: Path) -> None:
    assert stat.S_IMODE((finished / "witness.parley").stat().st_mode) == 0o600
    assert stat.S_IMODE(finished.stat().st_mode) == 0o700


def test_witness_is_not_in_the_transcript(finished: Path) -> None:
    witness = Witness.load(finished / "witness.parley")
    public = (finished / "transcript.parley").read_bytes()
    assert witness.key not in public
    assert witness.inputs.tobytes() not in public
    assert np.array_equal(witness.inputs, make_problem(FLAGS).inputs)


def test_process_per_user(parley: Parley) -> None:
    said = parley("run", *PROBLEM, "--users", 60, "--process-per-user", "--json", "--name", "crowd")
    assert said.code == 0, said.err
    assert said.record == json.loads(Path("runs/latest/result.json").read_text())
    assert said.record["replied"] == 60
    assert said.record["seed"] is None
    ready = [message for message in recorded(Path("runs/latest")) if isinstance(message, Ready)]
    assert len({message.pid for message in ready}) == 60
    assert os.getpid() not in {message.pid for message in ready}
    assert sorted((message.first, message.users) for message in ready) == [(user, 1) for user in range(60)]
    assert Path("runs/latest").resolve().name.endswith("-crowd")


def test_text_and_lines(parley: Parley) -> None:
    said = parley("run", *PROBLEM, "--users", 40, "--processes", 2, "--seed", 1)
    assert said.code == 0
    labels = [line.split()[0] for line in said.out.splitlines() if not line.startswith(" ")]
    first = ["question", "estimate", "note", "truth"]
    assert labels == [*first, "privacy", "rounds", "replied", "bytes", "seconds", "files", "again"]
    assert max(map(len, said.out.splitlines())) <= 80
    assert "3 declared, 3 observed" in said.out
    assert "not private" in said.err
    for number in (1, 2, 3):
        assert f"round {number} of 3: 40 replies" in said.err


def test_two_runs_in_one_second_have_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("parley.launch.results.folder.time.strftime", lambda form: "20260101-000000")
    first, second = choose_folder(None, "twin"), choose_folder(None, "twin")
    first.create()
    with pytest.raises(BadInput, match="already exists"):
        second.create()
    third = choose_folder(None, "twin")
    third.create()
    assert third.run == "20260101-000000-twin-2"
    assert Path("runs/latest").resolve() == third.path


def test_a_kernel_from_a_file(parley: Parley) -> None:
    kernel = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    np.savetxt("kernel.csv", kernel, delimiter=",")
    flags = ("--kernel", "kernel.csv", "--epsilon", 4, "--protocol", "three-round")
    said = parley("run", *flags, "--users", 200, "--processes", 2, "--seed", 3, "--json")
    assert said.code == 0, said.err
    assert said.record["replied"] == 200
    assert abs(said.record["error"]) < 6 * said.record["predicted_rmse"]


def test_protocols(parley: Parley) -> None:
    listed = parley("protocols", "--json").record
    assert {"name", "rounds", "interaction", "summary"} <= set(listed[0])
    assert {"three-round": 3}.items() <= {each["name"]: each["rounds"] for each in listed}.items()
    assert "three-round" in parley("protocols").out


@pytest.mark.parametrize(
    ("flags", "signed"),
    [((), True), (("--unsigned",), False), (("--processes", 64), False), (("--processes", 64, "--signed"), True)],
)
def test_who_signs(parley: Parley, flags: tuple[object, ...], signed: bool) -> None:
    """Everybody, unless told not to; a crowd of plain processes only if told to."""
    said = parley("run", *PROBLEM, "--users", 64, *flags, "--out", "run", "--quiet")
    assert said.code == 0, said.err
    assert Path("run/trust.toml").exists() == signed
    verdict = parley("audit", "run", "--json").record["authorship"]["verdict"]
    assert verdict == ("pass" if signed else "unknown")
