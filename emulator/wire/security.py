"""Keys and the files that hold them: of CURVE links (who we are, who the board is, whom it lets in), and of signatures.

Formal guarantee: with keys on both sides a link is encrypted, and the board knows each sender by the name its public
key is listed under (CurveZMQ, ZeroMQ RFC 26). No key is ever part of a representation of a pair or of an error.

Whose signatures count is in a file that does not come from the record they vouch for: a line
`"node-0" = "64 hexadecimal digits"` for each public Ed25519 key.
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
from parley.emulator.wire.signatures import PUBLIC_BYTES, SECRET_BYTES, Signer

RELAY_PREFIX = "relay"
# Others than the board and the shuffler whom one connects to: relays, and the boards of shards.
SERVER_PREFIXES = (RELAY_PREFIX, "board-")
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")
_NO_KEY_FILE = 'is not a key file: each line should be "name" = "key"'


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
    _write_new(path, 0o600, {"public": keys.public, "secret": keys.secret})


def read_keys(path: Path) -> KeyPair:
    """Read a pair, unless others could have read it too."""
    content = _read_texts(path, secret=True)
    if set(content) != {"public", "secret"}:
        raise BadInput(f"{path} does not hold one public and one secret key; make a new pair with `parley keys`")
    return KeyPair(public=content["public"], secret=content["secret"])


def write_allowed(path: Path, allowed: Mapping[str, str]) -> None:
    """Write the board's list, a line `"name" = "public key"` for each; nothing in it is secret."""
    check_allowed(allowed)
    _write_new(path, 0o644, {name: key for key, name in allowed.items()})


def read_allowed(path: Path) -> dict[str, str]:
    content = _read_texts(path)
    allowed = {key: name for name, key in content.items()}
    if len(allowed) != len(content):
        raise BadInput(f"{path} lists one key under two names; give each its own")
    check_allowed(allowed)
    return allowed


def write_relays(path: Path, relays: Mapping[str, str]) -> None:
    """Write who speaks for whom, a line `"node" = "relay"` for each node behind a relay."""
    _write_new(path, 0o644, check_relays(relays))


def read_relays(path: Path) -> dict[str, str]:
    return check_relays(_read_texts(path))


def check_relays(relays: Mapping[str, str]) -> dict[str, str]:
    """The same: nobody but user nodes is behind a relay, and no relay behind another."""
    for node, relay in relays.items():
        if not NAME.fullmatch(node) or node.startswith(RELAY_PREFIX) or node in ("board", "analyst", "launcher"):
            raise BadInput(f"{node[:80]!r} cannot be behind a relay; list user nodes, each with its relay")
        if not NAME.fullmatch(relay) or not relay.startswith(RELAY_PREFIX):
            raise BadInput(f"{relay[:80]!r} cannot be a relay; the names of relays begin with {RELAY_PREFIX!r}")
    return dict(relays)


def write_trust(path: Path, keys: Mapping[str, bytes]) -> None:
    """Write a new list of public signing keys; nothing in it is secret."""
    for name, key in keys.items():
        if not NAME.fullmatch(name) or len(key) != PUBLIC_BYTES:
            raise BadInput(f"{name[:80]!r} with a key of {len(key)} bytes cannot be listed")
    _write_new(path, 0o644, {name: key.hex() for name, key in keys.items()})


def read_trust(path: Path) -> dict[str, bytes]:
    content = _read(path, "key list", 'is not a list of signing keys: each line should be "name" = "key"')
    keys = {name: from_hex(value) for name, value in content.items()}
    for name, key in keys.items():
        if not NAME.fullmatch(name) or len(key) != PUBLIC_BYTES:
            what = f"what {path} lists for {name[:80]!r} is not a public signing key"
            raise BadInput(f"{what} of {2 * PUBLIC_BYTES} hexadecimal digits; see `parley keys`")
    return keys


def write_signer(path: Path, signer: Signer) -> None:
    """Write a secret signing key to a new file that only its owner may read."""
    _write_new(path, 0o600, {"signing": signer.secret.hex()})


def read_signer(path: Path) -> Signer:
    """Read a secret signing key; the error never holds a part of it."""
    unlike = "does not hold a signing key; `parley keys` makes them as NAME.signing"
    content = _read(path, "signing key", unlike, secret=True)
    secret = from_hex(content.get("signing")) if set(content) == {"signing"} else b""
    if len(secret) != SECRET_BYTES:
        raise BadInput(f"{path} {unlike}")
    return Signer(secret)


def _write_new(path: Path, mode: int, content: Mapping[str, str]) -> None:
    # Neither names nor Z85 have quotes or backslashes, so each line is TOML as it stands.
    text = "".join(f'"{name}" = "{value}"\n' for name, value in content.items())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}; choose a new file") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def _read(path: Path, what: str, unlike: str, *, secret: bool = False) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if secret and mode & 0o077:
                raise BadInput(f"others may read {path} (mode {mode:04o}); run `chmod 600` and make new keys")
            return tomllib.load(file)
    except OSError as error:
        raise BadInput(f"the {what} {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # The parser's own words could quote a key.
        raise BadInput(f"{path} {unlike}") from None


def _read_texts(path: Path, *, secret: bool = False) -> dict[str, str]:
    content = _read(path, "key file", _NO_KEY_FILE, secret=secret)
    if not all(isinstance(each, str) for each in content.values()):
        raise BadInput(f"{path} {_NO_KEY_FILE}")
    return content


def from_hex(value: object) -> bytes:
    """Bytes as they were typed in hexadecimal; none of what is something else."""
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
