"""Keys of the CURVE links: who we are, who the board is, whom it lets in; and the files that hold them.

Formal guarantee: with keys on both sides a link is encrypted, and the board knows each sender by the name its public
key is listed under (CurveZMQ, ZeroMQ RFC 26). No key is ever part of a representation of a pair or of an error.
"""

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.wire.messages import NAME

RELAY_PREFIX = "relay"
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """A Curve25519 pair, each half as 40 characters of Z85."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        check_key("public", self.public)
        check_key("secret", self.secret)


@dataclass(frozen=True, kw_only=True)
class Security:
    """What one process needs: its own pair; a peer the board's public key; the board the names of public keys."""

    keys: KeyPair
    server: str | None = None
    allowed: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.server is not None:
            check_key("public", self.server)
        check_allowed(self.allowed)


def check_key(half: str, key: str) -> None:
    """Refuse what cannot be a key, before libzmq says only that an argument is invalid."""
    if not _KEY.fullmatch(key):
        raise BadInput(f"a {half} key of {len(key)} characters is not 40 characters of Z85; `parley keys` makes them")


def check_allowed(allowed: Mapping[str, str]) -> None:
    """Every key is a key, every name a name that no other key has."""
    for key, name in allowed.items():
        check_key("public", key)
        if not NAME.fullmatch(name):
            raise BadInput(f"not a name for a key: {name[:80]!r}; use letters, digits and . _ : - (at most 64)")
    if len(set(allowed.values())) != len(allowed):
        raise BadInput("two keys are listed under one name; give each key its own")


def write_keys(path: Path, keys: KeyPair) -> None:
    write_new(path, 0o600, {"public": keys.public, "secret": keys.secret})


def read_keys(path: Path) -> KeyPair:
    """Read a pair, unless others could have read it too."""
    content = _read(path, secret=True)
    if set(content) != {"public", "secret"}:
        raise BadInput(f"{path} does not hold one public and one secret key; make a new pair with `parley keys`")
    return KeyPair(public=content["public"], secret=content["secret"])


def write_allowed(path: Path, allowed: Mapping[str, str]) -> None:
    """Write the board's list, a line `"name" = "public key"` for each; nothing in it is secret."""
    check_allowed(allowed)
    write_new(path, 0o644, {name: key for key, name in allowed.items()})


def read_allowed(path: Path) -> dict[str, str]:
    content = _read(path, secret=False)
    allowed = {key: name for name, key in content.items()}
    if len(allowed) != len(content):
        raise BadInput(f"{path} lists one key under two names; give each its own")
    check_allowed(allowed)
    return allowed


def write_relays(path: Path, relays: Mapping[str, str]) -> None:
    """Write who speaks for whom, a line `"node" = "relay"` for each node behind a relay."""
    check_relays(relays)
    write_new(path, 0o644, relays)


def read_relays(path: Path) -> dict[str, str]:
    relays = _read(path, secret=False)
    check_relays(relays)
    return relays


def check_relays(relays: Mapping[str, str]) -> None:
    """Nobody but user nodes is behind a relay, and no relay behind another."""
    for node, relay in relays.items():
        if not NAME.fullmatch(node) or node.startswith(RELAY_PREFIX) or node in ("board", "analyst", "launcher"):
            raise BadInput(f"{node[:80]!r} cannot be behind a relay; list user nodes, each with its relay")
        if not NAME.fullmatch(relay) or not relay.startswith(RELAY_PREFIX):
            raise BadInput(f"{relay[:80]!r} cannot be a relay; the names of relays begin with {RELAY_PREFIX!r}")


def write_new(path: Path, mode: int, content: Mapping[str, str]) -> None:
    # Neither names nor Z85 have quotes or backslashes, so each line is TOML as it stands.
    text = "".join(f'"{name}" = "{value}"\n' for name, value in content.items())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; choose a new file") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _read(path: Path, *, secret: bool) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if secret and mode & 0o077:
                raise BadInput(f"others may read {path} (mode {mode:04o}); run `chmod 600` and make new keys")
            content: dict[str, Any] = tomllib.load(file)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The parser's own words could quote a key.
        raise BadInput(f'{path} is not a key file: each line should be "name" = "key"') from None
    if not all(isinstance(each, str) for each in content.values()):
        raise BadInput(f'{path} is not a key file: each line should be "name" = "key"')
    return content
