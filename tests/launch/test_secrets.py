"""Keys, inputs and coins are in the files made for them, closed to others, and in nothing else a run leaves behind."""

import base64
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.coins import recorded_coins
from parley.emulator.record.conversation import listen
from parley.emulator.record.witness import Witness
from parley.emulator.wire.security import read_keys, read_signer
from parley.nodes.state.user_state import FILE, State
from parley.protocols.registry import build
from tests.launch.conftest import Parley, Said
from tests.launch.recovery import RUN, conditions

SECRET_FILES = ("witness.parley", "*.secret", "*.signing", "state.parley")
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
    for path in Path("keys").glob("*.signing"):
        found[f"signing key of {path.stem}"] = list(spellings(read_signer(path).secret))
    conversation = listen(folder / "transcript.parley", build)
    protocol, setup = conversation.protocol, conversation.setup
    assert protocol is not None
    assert setup is not None
    for announce in conversation.announces:
        number, step = announce.round, protocol.rounds[announce.round - 1]
        rows = recorded_coins(setup, announce, witness.key)(0, 50, step.coins)
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
    closed = [path for pattern in (*SECRET_FILES, "*.log") for path in Path("run").rglob(pattern)]
    assert len(closed) == 1 + 5, "the witness and logs: secret keys and states are gone"
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


def test_a_state_is_closed_to_others(parley: Parley) -> None:
    before = os.umask(0)
    try:
        said = parley("node", "init", "state", "--run", "survey", "--node", "a", "--inputs", 4, "--cap", 1)
    finally:
        os.umask(before)
    assert said.code == 0, said.err
    assert stat.S_IMODE(Path("state", FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(Path("state").stat().st_mode) == 0o700
    with State(Path("state")) as state:
        for secret in (state.identity.coin_key, state.identity.signing_key):
            assert not [form for form in spellings(secret) if form in (said.out + said.err).encode()]
