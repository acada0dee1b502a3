"""`parley node init` and `parley node user` with bad input: one sentence, exit code 2, nothing left behind."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.security import write_signer, write_trust
from parley.emulator.wire.signatures import Signer
from parley.nodes import init, user
from parley.nodes.state.user_state import State
from tests.attacks.impostor import ROOT
from tests.attacks.parties import ANALYST, BOARD, HOSTED, consent_for, make_state, spoken

GOOD = ["--run", "survey", "--node", "node-0", "--inputs", "4", "--cap", "1"]
BAD: dict[str, list[str]] = {
    "no values": [],
    "no inputs": ["--inputs", "0"],
    "negative inputs": ["--inputs", "-4"],
    "more inputs than a number": ["--inputs", str(2**70)],
    "inputs and columns": ["--column", "age=18:90/16"],
    "a column without levels": ["--column", "age=18:90/0"],
    "a column without a range": ["--column", "age=90:18/4"],
    "a column without an end": ["--column", "age=0:inf/4"],
    "a column of nothing": ["--column", "age=nan:1/4"],
    "a column that is none": ["--column", "age"],
    "columns beyond all bounds": [
        "--column",
        "a=0:1/9999999",
        "--column",
        "b=0:1/9999999",
        "--column",
        "c=0:1/9999999",
    ],
    "a column that is no text": ["--column", "a\udcff=no,yes"],
    "no users": ["--users", "0"],
    "negative users": ["--first", "-1"],
    "more users than a number": ["--users", str(2**70)],
    "a first user beyond all numbers": ["--first", str(2**64)],
    "the last user beyond all numbers": ["--first", str(2**63 - 1), "--users", "2"],
    "a name that is none": ["--node", "no name"],
    "the name of the analyst": ["--node", "analyst"],
    "the name of the board": ["--node", "board"],
    "no name": ["--node", ""],
    "a name that is too long": ["--node", "n" * 65],
    "a run that is none": ["--run", "no run"],
    "a pattern that is no text": ["--run", "survey-*\udcff"],
    "a cap that is no number": ["--cap", "nan"],
    "a cap without a limit": ["--cap", "inf"],
    "a negative cap": ["--cap", "-1"],
    "a delta that is no number": ["--delta-cap", "nan"],
    "a negative delta": ["--delta-cap", "-0.5"],
    "a shuffler without keys": ["--trust-shuffler"],
    "keys that are not there": ["--trust", "nowhere.toml"],
    "keys that are a folder": ["--trust", "."],
    "a signing key that is not there": ["--signing-key", "nowhere"],
}
WITHOUT_INPUTS = {"no values"} | {name for name in BAD if "column" in name and name != "inputs and columns"}


def invoke(folder: Path, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(init.main, [str(folder), *options])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.output


def check_refused(folder: Path, *options: str) -> str:
    code, said = invoke(folder, *options)
    assert (code, said.count("\n")) == (2, 1), said
    assert said.startswith("parley: ")
    assert not folder.exists()
    return said


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_and_leaves_nothing(what: str, tmp_path: Path) -> None:
    good = [each for each in GOOD if each not in ("--inputs", "4")] if what in WITHOUT_INPUTS else GOOD
    check_refused(tmp_path / "state", *good, *BAD[what])


def test_good_input_makes_a_state(tmp_path: Path) -> None:
    code, said = invoke(tmp_path / "state", *GOOD)
    assert code == 0
    with State(tmp_path / "state") as state:
        assert state.identity.signer is not None
        assert said == f'"node-0" = "{state.identity.signer.public.hex()}"\n'
    assert (tmp_path / "state" / "state.parley").stat().st_mode & 0o777 == 0o600


def test_a_state_is_never_written_over(tmp_path: Path) -> None:
    invoke(tmp_path / "state", *GOOD)
    before = (tmp_path / "state" / "state.parley").read_bytes()
    code, said = invoke(tmp_path / "state", *GOOD)
    assert (code, said.count("\n")) == (2, 1)
    assert (tmp_path / "state" / "state.parley").read_bytes() == before
    assert [each.name for each in (tmp_path / "state").iterdir()] == ["state.parley"]


def test_keys_of_the_wrong_kind(tmp_path: Path) -> None:
    curve = make_keys()
    lists = {
        "curve": f'"analyst" = "{curve.public}"\n"board" = "{curve.public}"\n'.replace("\\", ""),
        "short": f'"analyst" = "{ANALYST.public.hex()[:-2]}"\n"board" = "{BOARD.public.hex()}"\n',
        "no board": f'"analyst" = "{ANALYST.public.hex()}"\n',
        "numbers": '"analyst" = 1\n"board" = 2\n',
        "bytes": "\udcff\udcfe",
        "text": "analyst",
    }
    for name, text in lists.items():
        (tmp_path / name).write_text(text, errors="surrogateescape")
        check_refused(tmp_path / "state", *GOOD, "--trust", str(tmp_path / name))
    write_trust(tmp_path / "trust.toml", {"analyst": ANALYST.public, "board": BOARD.public})
    write_signer(tmp_path / "node.signing", Signer(bytes(32)))
    for option, file in (
        ("--signing-key", "trust.toml"),
        ("--trust", "node.signing"),
        ("--shuffler-key", "trust.toml"),
        ("--shuffler-key", "node.signing"),
    ):
        check_refused(tmp_path / "state", *GOOD, option, str(tmp_path / file))
    (tmp_path / "node.signing").chmod(0o644)
    said = check_refused(tmp_path / "state", *GOOD, "--signing-key", str(tmp_path / "node.signing"))
    assert "00000000" not in said


def test_a_disk_that_is_full_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "parley.nodes.init", str(tmp_path / "state"), *GOOD]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, preexec_fn=no_space, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith(b"parley: a state cannot be made")
    assert done.stderr.count(b"\n") == 1
    assert not list(tmp_path.iterdir())


def no_space() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))


def start(state: Path, inputs: Path, *options: str) -> tuple[int, str]:
    """A node that finds nobody where it is told the board is: what is wrong must be said before it looks."""
    command = [sys.executable, "-m", "parley.nodes.user", "--state", str(state), "--inputs", str(inputs), *options]
    command += [option for way in ("inbox", "feed", "delivery") for option in (f"--{way}", "tcp://127.0.0.1:9")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def spoil(state: Path, what: str) -> None:
    file = state / "state.parley"
    if what == "readable by others":
        file.chmod(0o644)
    elif what == "writable by a group":
        file.chmod(0o620)
    elif what == "missing":
        file.unlink()
    elif what == "cut":
        os.truncate(file, file.stat().st_size - 1)
    elif what == "longer":
        with file.open("ab") as more:
            more.write(b"\0")
    elif what == "another file":
        file.write_bytes(b"PARLEY\r\n" + bytes(100))
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "a folder":
        file.unlink()
        file.mkdir()
    elif what == "the head alone":
        file.write_bytes(b"PARLEYS2")


@pytest.mark.parametrize(
    "what",
    [
        "readable by others",
        "writable by a group",
        "missing",
        "cut",
        "longer",
        "another file",
        "empty",
        "a folder",
        "the head alone",
        "other inputs",
        "too many inputs",
        "inputs outside the domain",
    ],
)
def test_a_state_that_is_not_as_it_was_made_says_nothing(what: str, tmp_path: Path) -> None:
    state = make_state(tmp_path / "state", consent_for(spoken("frequency-grr")))
    users = HOSTED + (what == "too many inputs") - (what == "other inputs")
    np.save(tmp_path / "inputs.npy", np.full(users, 4 if what == "inputs outside the domain" else 3))
    spoil(state, what)
    code, said = start(state, tmp_path / "inputs.npy")
    assert (code, said.count("\n")) == (2, 1), said
    assert said.startswith("parley: ")


def test_every_byte_of_a_state_counts(tmp_path: Path) -> None:
    state = make_state(tmp_path / "state", consent_for(spoken("frequency-grr")))
    good = (state / "state.parley").read_bytes()
    for place in range(len(good)):
        (state / "state.parley").write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(user.BadInput):
            State(state)
        (state / "state.parley").write_bytes(good[:place])
        with pytest.raises(user.BadInput):
            State(state)


def test_the_state_of_another_node_speaks_in_its_own_name(tmp_path: Path) -> None:
    """A copied folder does not become somebody else: who a node is, is in the state and not in where it lies."""
    state = make_state(tmp_path / "alice", consent_for(spoken("frequency-grr")), node="alice")
    shutil.copytree(state, tmp_path / "bob")
    with State(tmp_path / "bob") as opened:
        assert opened.identity.node == "alice"


def test_a_new_key_for_a_node_whose_key_is_listed_is_refused(tmp_path: Path) -> None:
    """A fresh state under an old name would not be seated: better to hear so before the run."""
    keys = {name: Signer(bytes([number]) * 32) for number, name in enumerate(("analyst", "board", "node-0"), 1)}
    write_trust(tmp_path / "trust.toml", {name: signer.public for name, signer in keys.items()})
    words = ["--run", "r", "--node", "node-0", "--inputs", "4", "--cap", "1", "--trust", str(tmp_path / "trust.toml")]
    refused = CliRunner().invoke(init.main, [str(tmp_path / "state"), *words])
    assert refused.exit_code == 2
    assert "lists another signing key for node-0" in refused.output
    assert not (tmp_path / "state").exists()
    write_signer(tmp_path / "node-0.signing", keys["node-0"])
    made = CliRunner().invoke(
        init.main, [str(tmp_path / "state"), *words, "--signing-key", str(tmp_path / "node-0.signing")]
    )
    assert made.exit_code == 0, made.output
