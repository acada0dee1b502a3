"""Whose signatures count: public Ed25519 keys by name, in a file that does not come from the record they vouch for.

"analyst" = "64 hexadecimal digits"
"board" = "..."
"node-0" = "..."
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.wire.messages import NAME
from parley.emulator.wire.security import write_new
from parley.emulator.wire.signatures import PUBLIC_BYTES, SECRET_BYTES, Signer


def write_trust(path: Path, keys: Mapping[str, bytes]) -> None:
    """Write a new list of public keys; nothing in it is secret."""
    for name, key in keys.items():
        if not NAME.fullmatch(name) or len(key) != PUBLIC_BYTES:
            raise BadInput(f"{name[:80]!r} with a key of {len(key)} bytes cannot be listed")
    write_new(path, 0o644, {name: key.hex() for name, key in keys.items()})


def read_trust(path: Path) -> dict[str, bytes]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the key list {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise BadInput(f'{path} is not a list of signing keys: each line should be "name" = "key"') from None
    keys = {name: _bytes(value) for name, value in content.items()}
    for name, key in keys.items():
        if not NAME.fullmatch(name) or len(key) != PUBLIC_BYTES:
            what = f"what {path} lists for {name[:80]!r} is not a public signing key"
            raise BadInput(f"{what} of {2 * PUBLIC_BYTES} hexadecimal digits; see `parley keys`")
    return keys


def write_signer(path: Path, signer: Signer) -> None:
    """Write a secret signing key to a new file that only its owner may read."""
    write_new(path, 0o600, {"signing": signer.secret.hex()})


def read_signer(path: Path) -> Signer:
    """Read a secret signing key; the error never holds a part of it."""
    try:
        mode = path.stat().st_mode
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the signing key {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        content, mode = {}, 0
    if mode & 0o077:
        raise BadInput(f"others may read {path} (mode {mode & 0o777:04o}); run `chmod 600` and make new keys")
    secret = _bytes(content.get("signing")) if set(content) == {"signing"} else b""
    if len(secret) != SECRET_BYTES:
        raise BadInput(f"{path} does not hold a signing key; `parley keys` makes them as NAME.signing")
    return Signer(secret)


def _bytes(value: object) -> bytes:
    try:
        return bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        return b""
