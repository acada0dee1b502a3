"""The keys of a run in one folder: a pair for everybody, the board's public key, and whom the board lets in."""

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire import security as key_files
from parley.emulator.wire.messages import NAME
from parley.emulator.wire.signatures import SECRET_BYTES, Signer


@dataclass(frozen=True, kw_only=True)
class Keyring:
    """Where each key is. Give a host its own pair and `board.public`; only the board's needs `allowed.public`."""

    folder: Path

    def pair(self, name: str) -> Path:
        return self.folder / f"{name}.secret"

    def signing(self, name: str) -> Path:
        return self.folder / f"{name}.signing"

    @property
    def trust(self) -> Path:
        """The public signing keys of all."""
        return self.folder / "trust.toml"

    def link_key(self, server: str) -> str:
        """The public CURVE key of one whom others connect to."""
        return _keys_by_name(self.public(server))[server]

    def public(self, server: str) -> Path:
        """The public key of one whom others connect to: the board, a shuffler or a relay."""
        return self.folder / f"{server}.public"

    @property
    def allowed(self) -> Path:
        return self.folder / "allowed.public"

    def arguments(self, name: str, server: str = BOARD_NAME) -> dict[str, object]:
        """What a node's command line says about keys; `server` is whom it connects to: board, shuffler or relay."""
        found: dict[str, object] = {"--keys": self.pair(name)}
        if is_server(name):
            found["--allowed"] = self.allowed
        if name != server:
            found["--board-key"] = self.public(server)
        return found

    def security(self, name: str, server: str = BOARD_NAME) -> key_files.Security:
        """What a peer of a board needs to speak under this name."""
        return key_files.Security(keys=key_files.read_keys(self.pair(name)), server=self.link_key(server))

    def check(self, names: Iterable[str]) -> None:
        """Everybody has a pair that can be used, and the board knows all but its own."""
        listed, board = _keys_by_name(self.allowed), _keys_by_name(self.public(BOARD_NAME))
        for name in names:
            public = key_files.read_keys(self.pair(name)).public
            if (board if name == BOARD_NAME else listed).get(name) != public:
                raise BadInput(f"{self.pair(name)} is not the key that is listed for {name}; make keys anew")


def _keys_by_name(file: Path) -> dict[str, str]:
    return {name: key for key, name in key_files.read_allowed(file).items()}


def is_server(name: str) -> bool:
    """Whether others connect to the one of this name."""
    return name in (BOARD_NAME, SHUFFLER_NAME) or name.startswith(key_files.SERVER_PREFIXES)


def parties(nodes: Iterable[str], *, shuffler: bool = False, relays: Iterable[str] = ()) -> list[str]:
    return [BOARD_NAME, ANALYST_NAME, LAUNCHER_NAME, *([SHUFFLER_NAME] if shuffler else []), *relays, *nodes]


def make_keyring(folder: Path, names: Iterable[str]) -> Keyring:
    """A new folder, open to its owner alone, with a fresh pair for every name."""
    names = list(names)
    wrong = [name for name in names if not NAME.fullmatch(name)]
    if wrong or len(set(names)) != len(names):
        twice = next((name for name in names if names.count(name) > 1), "")
        what = f"{wrong[0]!r:.80} cannot name a node" if wrong else f"the name {twice!r} is taken twice"
        raise BadInput(f"{what}; give different names of letters, digits and . _ : -, at most 64 of them each")
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise BadInput(f"{folder} exists already; keys are never written over, give a new folder") from None
    except OSError as error:
        raise BadInput(f"the folder {folder} cannot be made: {error.strerror}") from error
    ring, allowed, trust = Keyring(folder=folder), dict[str, str](), dict[str, bytes]()
    for name in names:
        keys, signer = make_keys(), Signer(secrets.token_bytes(SECRET_BYTES))
        key_files.write_keys(ring.pair(name), keys)
        key_files.write_signer(ring.signing(name), signer)
        trust[name] = signer.public
        if is_server(name):
            key_files.write_allowed(ring.public(name), {keys.public: name})
        if name != BOARD_NAME:
            allowed[keys.public] = name
    key_files.write_allowed(ring.allowed, allowed)
    key_files.write_trust(ring.trust, trust)
    return ring
