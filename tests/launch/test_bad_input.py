"""Bad input: exit code 2, one sentence that names what is wrong, nothing written."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.errors import BadInput
from parley.emulator.wire.codec import pack
from parley.launch.cluster import layout
from parley.nodes.analyst import read_plan
from parley.nodes.state.user_state import FILE, State
from tests.launch.conftest import PROBLEM, ROOT, Parley, Said

SHORT = {"KENDALL": "--statistic kendall --levels 4x4 --epsilon 1", "USERS": "--users 20"}
# What lies in the folder.
FILES = {
    "people.csv": "age,score,city,day,gap\n20,1,Rome,2024-01-01,1\n30,2,Oslo,2024-02-01,\n40,3,Rome,2024-03-01,3\n",
    "empty.csv": "",
    "names.csv": "age,score\n",
    "one.csv": "age,score\n1,2\n",
    "semicolons.csv": "age;score\n1;2\n",
    "ragged.csv": "age,score\n1,2\n3\n",
    "twice.csv": "age,age\n1,2\n",
    "sheet.xlsx": "x",
    "broken.parquet": "x",
    "wide.csv": "1,2\n3\n",
    "words.csv": "a,b\nc,d\n",
    "oblong.csv": "1,2,3\n4,5,6\n",
    "storm.toml": "loss = 2\n",
    "short.csv": "1,2,3\n",
    "protocol.py": "x = 1\n",
    "broken.py": "raise SystemExit(4)\n",
    "latin.csv": "age,score\n1,\xe9\n2,3\n",
    "decimal.csv": 'age,score\n"1,5","2,5"\n"3,5","4,5"\n',
}
_LINES = (ROOT / "tests" / "launch" / "bad_inputs.txt").read_text().split("\n\nparley ")[1:]
# Command and sentence.
TABLE = [tuple(line.strip() for line in entry.split("\n    ", 1)) for entry in _LINES]
SMALL = ("--users", "20", "--processes", "2")


def refused(said: Said, *words: str) -> None:
    """One sentence on standard error, with these words in it."""
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("parley: ")
    assert len(said.err.splitlines()) == 1, said.err
    for word in words:
        assert word in said.err


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield min(listener.getsockname()[1], 65533)


@pytest.mark.parametrize(("command", "sentence"), TABLE, ids=[command for command, _ in TABLE])
def test_every_bad_input_has_its_sentence(parley: Parley, tmp_path: Path, command: str, sentence: str) -> None:
    """What was given, what is allowed, what to do; and nothing is left behind."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    words = shlex.split(" ".join(SHORT.get(word, word) for word in command.split(" ")))
    said = parley(*words)
    refused(said)
    beginning, dots, _ = sentence.partition("...") if sentence.endswith("...") else (sentence, "", "")
    found = said.err.removeprefix("parley: ").rstrip("\n")
    assert found.startswith(beginning) if dots else found == sentence
    assert {each.name for each in tmp_path.iterdir()} == set(FILES)


def test_the_table_is_long_and_has_no_word_of_click() -> None:
    assert len({command for command, _ in TABLE}) == len(TABLE) >= 60
    for _, sentence in TABLE:
        assert "Invalid value" not in sentence
        assert "Error" not in sentence
        assert "Missing" not in sentence


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (np.ones((3, 4)), "square"),
        (np.array([[0.0, np.nan], [1.0, 0.0]]), "finite"),
        (np.array([[0.0, np.inf], [1.0, 0.0]]), "finite"),
        (np.ones(4), "matrix"),
        (np.ones((1, 1)), "2"),
        (np.array([["a", "b"], ["c", "d"]]), "number"),
    ],
)
def test_kernels(parley: Parley, tmp_path: Path, content: np.ndarray, word: str) -> None:
    np.save(tmp_path / "kernel.npy", content)
    refused(parley("run", *SMALL, "--kernel", "kernel.npy", "--epsilon", "1"), "kernel.npy", word)
    assert [each.name for each in tmp_path.iterdir()] == ["kernel.npy"]


@pytest.mark.parametrize("name", ["text.npy", "empty.csv"])
def test_kernel_files(parley: Parley, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text({"text.npy": "not an array", "empty.csv": ""}[name])
    refused(parley("run", *SMALL, "--kernel", name, "--epsilon", "1"), name)


def test_an_output_folder_that_exists(parley: Parley, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "letter").write_text("dear")
    refused(parley("run", *PROBLEM, *SMALL, "--out", "kept"), "kept", "exists")
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "letter").read_text() == "dear"


def test_an_output_folder_inside_a_file(parley: Parley, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(parley("run", *PROBLEM, *SMALL, "--out", "file/run"), "file/run")
    assert (tmp_path / "file").read_text() == "x"


def test_a_port_in_use(parley: Parley, tmp_path: Path, taken: int) -> None:
    refused(parley("run", *PROBLEM, *SMALL, "--port", taken), str(taken), "in use")
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_at_the_last_moment(
    parley: Parley, tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "check_ports", lambda port, host: None)
    refused(parley("run", *PROBLEM, *SMALL, "--port", taken, "--out", "run"), str(taken))
    assert list(tmp_path.iterdir()) == []


def test_more_processes_than_the_machine_has_files_for(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr("resource.getrlimit", lambda which: (256, 256))
    monkeypatch.setattr("resource.setrlimit", refuse)
    refused(parley("run", *PROBLEM, "--users", 200, "--process-per-user"), "656", "256", "ulimit")
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_where(parley: Parley) -> None:
    said = parley("run", *PROBLEM, *SMALL, "--epsilon", "-1", "--debug")
    assert said.code == 2
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("parley: ")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--patience", "nan"),
        ("--patience", "inf"),
        ("--patience", "1e+09"),
        ("--patience", "1e+300"),
    ],
)
def test_limits_of_a_user_node_are_numbers(tmp_path: Path, flag: str, value: str) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros(1, dtype=np.int64))
    board = [word for name in ("--inbox", "--feed", "--delivery") for word in (name, "tcp://127.0.0.1:9")]
    mine = ["--inputs", "inputs.npy", "--state", "state", flag, value]
    command = [sys.executable, "-m", "parley.nodes.user", *board, *mine]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60
    )
    refused(Said(code=done.returncode, out=done.stdout, err=done.stderr), flag, value)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *((("--cap", value), ("cap", value)) for value in ("nan", "inf", "-1")),
        *((("--delta-cap", value), ("delta", value)) for value in ("nan", "inf")),
        (("--run", "a b"), ("a b", "name of a run")),
        (("--node", "a b"), ("a b", "name a node")),
        (("--first", -1), ("-1", "cohort")),
        (("--users", 0), ("0 users", "cohort")),
        (("--inputs", 0), ("0 inputs", "empty")),
        (("--column", "age=18:90/16"), ("--inputs", "--column")),
        (("--trust", "nowhere.toml"), ("nowhere.toml", "cannot be read")),
        (("--trust-shuffler",), ("--trust", "--shuffler-key")),
        (("--signing-key", "nowhere.signing"), ("nowhere.signing", "cannot be read")),
    ],
    ids=str,
)
def test_a_state_that_means_nothing_is_not_made(parley: Parley, changes: tuple[object, ...], words: Any) -> None:
    """A cap that compares with nothing would let any epsilon through."""
    given = {"--run": "survey", "--node": "a", "--inputs": 4, "--cap": 1}
    given |= {changes[0]: changes[1]} if len(changes) == 2 else {}
    extra = changes if len(changes) == 1 else ()
    said = parley("node", "init", "state", *(word for pair in given.items() for word in pair), *extra)
    refused(said, *words)
    assert not Path("state").exists()


def test_a_state_is_made_once_and_prints_its_public_key(parley: Parley) -> None:
    command = ("node", "init", "state", "--run", "survey-*", "--node", "a", "--column", "age=18:90/16", "--cap", 1)
    said = parley(*command)
    assert (said.code, said.err) == (0, "")
    with State(Path("state")) as state:
        signer = state.identity.signer
        assert signer is not None
        assert said.out == f'"a" = "{signer.public.hex()}"\n'
        assert state.identity.consent.inputs == 16
        before = (Path("state") / FILE).read_bytes()
    refused(parley(*command), "already exists")
    assert (Path("state") / FILE).read_bytes() == before


@pytest.mark.parametrize("field", ["protocol", "parameters", "domain"])
def test_a_plan_of_other_types_is_refused_in_one_sentence(tmp_path: Path, field: str) -> None:
    plan = {"protocol": "frequency-grr", "parameters": {}, "domain": {"inputs": 4}}
    for value in (None, True, 7, 1.5, (), np.array([1])):
        (tmp_path / "plan").write_bytes(pack({**plan, field: value}))
        with pytest.raises(BadInput, match="the plan"):
            read_plan(tmp_path / "plan")
