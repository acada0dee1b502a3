"""Key files: private to their owner, never overwritten, and silent about what is in them."""

from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.security import KeyPair, Security, read_allowed, read_keys, write_allowed, write_keys


def test_a_pair_survives_its_file_and_only_the_owner_may_read_it(tmp_path: Path) -> None:
    pair, path = make_keys(), tmp_path / "alice.keys"
    write_keys(path, pair)
    assert read_keys(path) == pair
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    pair, path = make_keys(), tmp_path / "alice.keys"
    write_keys(path, pair)
    with pytest.raises(BadInput, match="choose a new file"):
        write_keys(path, make_keys())
    assert read_keys(path) == pair


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o601])
def test_a_secret_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "alice.keys"
    write_keys(path, make_keys())
    path.chmod(mode)
    with pytest.raises(BadInput, match=f"mode {mode:04o}"):
        read_keys(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b'public = "short"\nsecret = "short"\n',
        b"public = 1\nsecret = 2\n",
        b'public = "KEY"\n',
        b'secret = "KEY" "KEY"\n',
        b'"KEY"\n',
    ],
)
def test_a_broken_file_is_refused_without_a_word_of_it(tmp_path: Path, content: bytes) -> None:
    secret = make_keys().secret
    path = tmp_path / "alice.keys"
    path.write_bytes(content.replace(b"KEY", secret.encode()))
    path.chmod(0o600)
    with pytest.raises(BadInput) as caught:
        read_keys(path)
    assert secret not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nobody.keys cannot be read"):
        read_keys(tmp_path / "nobody.keys")


def test_the_secret_half_is_not_shown() -> None:
    pair = make_keys()
    assert pair.secret not in repr(pair) + repr(Security(keys=pair, server=pair.public))
    with pytest.raises(BadInput) as caught:
        KeyPair(public=pair.public, secret=pair.secret + "x")
    assert pair.secret not in str(caught.value)


def test_the_list_survives_its_file(tmp_path: Path) -> None:
    allowed = {make_keys().public: name for name in ("analyst", "node-1", "node.2:x")}
    write_allowed(tmp_path / "allowed", allowed)
    assert read_allowed(tmp_path / "allowed") == allowed


def test_a_list_is_one_name_a_key_and_one_key_a_name(tmp_path: Path) -> None:
    one, two = make_keys().public, make_keys().public
    with pytest.raises(BadInput, match="under one name"):
        Security(keys=make_keys(), allowed={one: "alice", two: "alice"})
    with pytest.raises(BadInput, match="not a name"):
        Security(keys=make_keys(), allowed={one: "alice smith"})
    with pytest.raises(BadInput, match="40 characters"):
        Security(keys=make_keys(), allowed={"alice": one})
    (tmp_path / "allowed").write_text(f'alice = "{one}"\nbob = "{one}"\n')
    with pytest.raises(BadInput, match="one key under two names"):
        read_allowed(tmp_path / "allowed")
