"""Files of signing keys: read back as written, refused in one sentence, and no secret in any error."""

import stat
from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.wire.security import read_signer, read_trust, write_signer, write_trust
from parley.emulator.wire.signatures import Signer

SIGNER = Signer(bytes(range(32)))
KEYS = {"analyst": bytes(32), "board": SIGNER.public, "node-0": bytes([7] * 32), "a.b:c_d-e": bytes([9] * 32)}


def refused(path: Path, content: str, what: str) -> str:
    path.write_text(content)
    with pytest.raises(BadInput, match=what) as caught:
        read_trust(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_keys_are_read_back_and_may_be_read_by_all(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    write_trust(path, KEYS)
    assert read_trust(path) == KEYS
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444
    with pytest.raises(BadInput):
        write_trust(path, KEYS)
    assert read_trust(path) == KEYS


def test_a_list_is_what_a_person_would_write(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(f'# ours\nboard = "{SIGNER.public.hex().upper()}"\n"node-0" = "{"07" * 32}"\n')
    assert read_trust(path) == {"board": SIGNER.public, "node-0": bytes([7] * 32)}
    path.write_text("")
    assert read_trust(path) == {}


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "a" * 65, "é"])
def test_names_that_are_none_cannot_be_listed(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="cannot be listed"):
        write_trust(tmp_path / "trust.toml", {name: bytes(32)})
    refused(tmp_path / "t", f'"{name}" = "{"00" * 32}"\n', "is not a public signing key of 64 hexadecimal digits")
    with pytest.raises(BadInput, match="with a key of 31 bytes cannot be listed"):
        write_trust(tmp_path / "trust.toml", {"board": bytes(31)})
    assert not (tmp_path / "trust.toml").exists()


@pytest.mark.parametrize(
    "value", ['""', '"00"', f'"{"00" * 31}"', f'"{"00" * 33}"', '"zz"', "7", "true", "[]", "{ a = 1 }"]
)
def test_keys_that_are_none_are_refused(tmp_path: Path, value: str) -> None:
    said = refused(tmp_path / "t", f"board = {value}\n", "what .* lists for 'board' is not a public signing key")
    assert "parley keys" in said


@pytest.mark.parametrize("content", ["board", "board = ", "= 1", '"board" = "00"\n"board" = "00"\n', "\0"])
def test_what_is_not_a_list_is_refused(tmp_path: Path, content: str) -> None:
    refused(tmp_path / "t", content, "is not a list of signing keys")


def test_a_list_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadInput, match="cannot be read"):
            read_trust(path)
    (tmp_path / "t").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="is not a list"):
        read_trust(tmp_path / "t")


def test_a_secret_is_read_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "board.signing"
    write_signer(path, SIGNER)
    assert read_signer(path).secret == SIGNER.secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(BadInput):
        write_signer(path, Signer(bytes(32)))
    assert read_signer(path).secret == SIGNER.secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_secret_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "board.signing"
    write_signer(path, SIGNER)
    path.chmod(mode)
    with pytest.raises(BadInput, match=f"others may read .* .mode {mode:04o}."):
        read_signer(path)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "signing",
        'signing = ""',
        f'signing = "{SIGNER.secret.hex()[:-2]}"',
        f'signing = "{SIGNER.secret.hex()}00"',
        f'signing = "{SIGNER.secret.hex()}"\nmore = 1',
        f'secret = "{SIGNER.secret.hex()}"',
        f'signing = "{SIGNER.secret.hex()[:-1]}g"',
    ],
)
def test_what_is_not_a_secret_is_refused_without_a_part_of_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "board.signing"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(BadInput, match="does not hold a signing key") as caught:
        read_signer(path)
    assert SIGNER.secret.hex()[:8] not in str(caught.value)


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"the signing key .* cannot be read"):
        read_signer(tmp_path / "none")
