"""`parley keys`, and runs whose links are encrypted with them."""

import json
import stat
import subprocess
from pathlib import Path

from parley.emulator.wire.security import read_allowed, read_keys, read_signer, read_trust
from tests.launch.conftest import ROOT, Parley
from tests.launch.recovery import COMMAND, PROBLEM, RUN, check_undisturbed

PARTIES = ["board", "analyst", "launcher", "node-0", "node-1", "node-2"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_keys_are_private_and_listed(parley: Parley) -> None:
    said = parley("keys", "keys", "--nodes", 3, "--json")
    assert said.code == 0, said.err
    assert json.loads(said.out) == {"folder": "keys", "names": PARTIES}
    assert mode(Path("keys")) == 0o700
    pairs = {name: read_keys(Path(f"keys/{name}.secret")) for name in PARTIES}
    assert all(mode(path) == 0o600 for path in Path("keys").glob("*.secret"))
    listed = read_allowed(Path("keys/allowed.public"))
    assert listed == {pair.public: name for name, pair in pairs.items() if name != "board"}
    assert read_allowed(Path("keys/board.public")) == {pairs["board"].public: "board"}
    public = Path("keys/allowed.public").read_text() + Path("keys/board.public").read_text() + said.out + said.err
    assert not [name for name, pair in pairs.items() if pair.secret in public]
    signers = {name: read_signer(Path(f"keys/{name}.signing")) for name in PARTIES}
    assert all(mode(path) == 0o600 for path in Path("keys").glob("*.signing"))
    assert read_trust(Path("keys/trust.toml")) == {name: signer.public for name, signer in signers.items()}
    public += Path("keys/trust.toml").read_text()
    assert not [name for name, signer in signers.items() if signer.secret.hex() in public]


def test_keys_are_never_written_over(parley: Parley) -> None:
    assert parley("keys", "keys").code == 0
    before = Path("keys/board.secret").read_text()
    said = parley("keys", "keys")
    assert said.code == 2
    assert "exists already" in said.err
    assert Path("keys/board.secret").read_text() == before


def test_names_of_ones_own(parley: Parley) -> None:
    assert parley("keys", "keys", "--node", "clinic-a", "--node", "clinic-b").code == 0
    assert Path("keys/clinic-b.secret").exists()
    for wrong in (("--node", "a b"), ("--node", "board"), ("--nodes", 0), ("--node", "../x")):
        said = parley("keys", "others", *wrong)
        assert said.code == 2, wrong
        assert not Path("others").exists()


def test_a_run_with_keys(parley: Parley, finished: Path) -> None:
    assert parley("keys", "keys", "--nodes", 3).code == 0
    said = parley(*RUN, "--keys", "keys", "--out", "run")
    assert said.code == 0, said.err
    check_undisturbed(Path("run"), finished)


def refused(parley: Parley, *arguments: object) -> str:
    said = parley("run", *PROBLEM, "--users", 30, "--processes", 3, "--out", "run", *arguments)
    assert said.code == 2
    assert not Path("run").exists()
    return said.err


def test_keys_that_cannot_be_used(parley: Parley) -> None:
    assert parley("keys", "keys", "--nodes", 2).code == 0
    assert "node-2" in refused(parley, "--keys", "keys")
    assert "cannot be read" in refused(parley, "--keys", "nowhere")
    assert "contradict" in refused(parley, "--keys", "keys", "--secure")
    assert parley("keys", "whole", "--nodes", 3).code == 0
    Path("whole/node-1.secret").chmod(0o644)
    assert "others may read" in refused(parley, "--keys", "whole")
    Path("whole/node-1.secret").chmod(0o600)
    Path("whole/node-1.secret").write_bytes(Path("keys/node-1.secret").read_bytes())
    assert "not the key that is listed for node-1" in refused(parley, "--keys", "whole")


def test_without_keys_only_loopback(tmp_path: Path) -> None:
    options = ("--run", "r", "--users", "1", "--nodes", "1", "--transcript", str(tmp_path / "t.parley"))
    command = (*COMMAND, "node", "board", *options, "--inbox", "tcp://0.0.0.0:0")
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 2
    assert "0.0.0.0 can be reached from other machines" in said.stderr
    assert "parley keys" in said.stderr
    assert not (tmp_path / "t.parley").exists()
