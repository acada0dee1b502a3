"""Keys, inputs and coins are in the files made for them, closed to others, and in nothing else a run leaves behind."""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from nodes.journal import keep_key

from emulator.audit.conversation import listen
from emulator.coins import coins
from emulator.security import read_keys
from emulator.witness import Witness
from protocols.registry import build
from tests.launch.conftest import Parley, Said
from tests.launch.recovery import RUN, conditions

SECRET_FILES = ("witness.parley", "*.secret")
WINDOW = 12
# A run that survives faults, one that fails, and one that is told to show tracebacks: all of them talk a lot.
STORIES = {
    "completed": ("kill node-0 rounds=1", "corrupt * probability=0.1", "kill board rounds=2"),
    "failed": ("kill node-1 rounds=2 restart=false",),
}


def spellings(secret: bytes) -> Iterator[bytes]:
    yield from (secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)[:-4])
    yield repr(secret)[2:-1].encode()


def input_spellings(inputs: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[bytes]:
    """A few people's inputs in a row, as numbers of any width or as text."""
    some = inputs[:WINDOW]
    for width in ("<i8", "<i4", "<i2", "|u1"):
        yield some.astype(width).tobytes()
    for separator in (", ", ",", " ", "\n"):
        yield separator.join(map(str, some)).encode()


def secrets_of(folder: Path) -> dict[str, list[bytes]]:
    witness = Witness.load(folder / "witness.parley")
    found = {"coin key": list(spellings(witness.key)), "inputs": list(input_spellings(witness.inputs))}
    for path in Path("keys").glob("*.secret"):
        found[f"key of {path.stem}"] = list(spellings(read_keys(path).secret.encode()))
    protocol = listen(folder / "transcript.parley", build).protocol
    assert protocol is not None
    for number, step in enumerate(protocol.rounds, 1):
        rows = coins(witness.key, number, 0, 50, step.coins)
        found[f"coins of round {number}"] = [spelling for row in rows for spelling in spellings(row.tobytes())]
    return found


def public_files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(path.match(pattern) for pattern in SECRET_FILES)
    ]


def check_nothing_leaked(folder: Path, said: Said) -> None:
    contents = {str(path.relative_to(folder)): path.read_bytes() for path in public_files(folder)}
    contents |= {"standard output": said.out.encode(), "standard error": said.err.encode()}
    assert {"transcript.parley", "report.html", "logs/board.log", "logs/node-0.log"} <= set(contents)
    for name, forms in secrets_of(folder).items():
        for place, content in contents.items():
            assert not [form for form in forms if form in content], f"{name} in {place}"


@pytest.mark.parametrize("story", STORIES)
def test_secrets_stay_where_they_belong(story: str, parley: Parley) -> None:
    rules = conditions(Path("rules.toml"), *STORIES[story])
    assert parley("keys", "keys", "--nodes", 3).code == 0
    said = parley(*RUN[:-1], "--conditions", rules, "--keys", "keys", "--debug", "--out", "run")
    assert said.code == (0 if story == "completed" else 3), said.err
    check_nothing_leaked(Path("run"), said)
    closed = [path for pattern in (*SECRET_FILES, "*.journal", "*.log") for path in Path("run").rglob(pattern)]
    assert len(closed) == 1 + 3 + 5, "the witness, journals and logs"
    assert {stat.S_IMODE(path.stat().st_mode) for path in closed} == {0o600}
    assert stat.S_IMODE(Path("run").stat().st_mode) == 0o700


def test_the_search_finds_what_it_looks_for(parley: Parley) -> None:
    """The test above can fail: a secret that is put into a log is found."""
    assert parley("keys", "keys", "--nodes", 3).code == 0
    said = parley(*RUN, "--keys", "keys", "--out", "run")
    check_nothing_leaked(Path("run"), said)
    witness = Witness.load(Path("run/witness.parley"))
    leaks = {
        "logs/node-0.log": witness.key.hex().encode(),
        "report.html": str(witness.inputs[:20].tolist()).encode(),
        "logs/board.log": read_keys(Path("keys/board.secret")).secret.encode(),
    }
    for place, leak in leaks.items():
        path = Path("run") / place
        before = path.read_bytes()
        path.write_bytes(before + leak)
        with pytest.raises(AssertionError, match=f" in {place}"):
            check_nothing_leaked(Path("run"), said)
        path.write_bytes(before)


def test_a_coin_key_is_closed_to_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        keep_key(tmp_path / "state")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state/coins.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
