"""The state of a user node on disk: one file, all or nothing. `parley node init` makes it, nothing else does.

    PARLEYS2 | entry | entry | ...        an entry: length (4 bytes), payload (msgpack), SHA-256 of all so far

The first entry is the node's identity: its seat, its consent, its coin key and its signing key. After that come the
setup it sat down to, each question before it is answered, and the end of the run. A node holds a lock on the file
while it lives. A state that is missing, cut, altered or in use by another process is refused: whoever answers without
knowing what was answered before may answer twice.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.roles.consent import Consent
from parley.emulator.roles.node_memory import Answered, Commit, Evidence, Finished, Memory, Seated
from parley.emulator.wire.codec import pack, unpack
from parley.emulator.wire.messages import LARGEST_COUNT, NAME
from parley.emulator.wire.signatures import Signer
from parley.nodes.state.disk import REAL, Chain, Disk, Locked, create_whole, open_locked, read_whole, write_whole

FILE = "state.parley"
MAGIC = b"PARLEYS2"
EVIDENCE_MAGIC = b"PARLEYE2"
EVIDENCE = {"run": str, "node": str, "round": int, "reason": str, "close": bytes, "frames": tuple, "before": bytes}
KINDS: Mapping[str, type[Commit]] = {"seated": Seated, "answered": Answered, "finished": Finished}


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a node is and what its users agreed to. The keys are no part of its representation."""

    node: str
    first: int
    users: int
    consent: Consent
    coin_key: bytes = field(repr=False)
    signing_key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.node):
            allowed = "letters, digits and . _ : -, at most 64 of them"
            raise BadInput(f"{self.node[:80]!r} cannot name a node: use {allowed}")
        if self.first < 0 or self.users < 1 or self.first + self.users > LARGEST_COUNT:
            raise BadInput(f"a cohort of {self.users} users from {self.first} on is impossible; give at least one user")
        if len(self.coin_key) != KEY_BYTES:
            raise BadInput(f"the coin key has {len(self.coin_key)} bytes instead of {KEY_BYTES}")

    @property
    def signer(self) -> Signer | None:
        """What it signs with; None in an experiment without signatures."""
        return Signer(self.signing_key) if self.signing_key else None


class State(Locked):
    """An open state, locked. `write` returns when the disk has an entry; after an error it writes nothing more."""

    def __init__(self, folder: Path, *, durable: bool = True, disk: Disk = REAL) -> None:
        """Without `durable` an entry survives the death of the process, but not of the machine."""
        self.path = folder / FILE
        self.memory = Memory()
        self._durable = durable
        self._broken = False
        self._chain, self._end = Chain(MAGIC), 0
        missing = f"there is no state at {self.path}; make one with `parley node init`"
        super().__init__(disk, open_locked(disk, self.path, os.O_RDWR, f"the state {self.path}", missing))
        try:
            self.identity = self._load()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, identity: Identity, *, durable: bool = True, disk: Disk = REAL) -> None:
        """A new state, whole or not there at all."""
        # A name that nobody else has: one who was killed here may have left a draft under any number of a process.
        path, draft, new = folder / FILE, folder / f".{FILE}.{secrets.token_hex(8)}", not folder.exists()
        record = {**vars(identity), "consent": vars(identity.consent)}
        try:
            payload = pack(record)
        except LocalProtocolError as error:
            raise BadInput(f"the state cannot be made: {error}") from error
        try:
            if not folder.is_dir():
                disk.make_folder(folder, parents=True)
            create_whole(disk, draft, path, [MAGIC + Chain(MAGIC).entry(payload)], durable=durable)
        except FileExistsError:
            raise BadInput(f"{path} already exists; a state is never overwritten, give a new folder") from None
        except OSError as error:
            if new:
                with suppress(OSError):
                    disk.remove_folder(folder)
            raise BadInput(f"a state cannot be made in {folder}: {error.strerror}") from error

    def write(self, commit: Commit) -> None:
        """Put a commitment on disk; when this returns, what depends on it may be sent."""
        if self._broken:
            raise LocalProtocolError(f"writing to {self.path} failed before; this node says nothing more")
        kind = next(name for name, each in KINDS.items() if isinstance(commit, each))
        entry = self._chain.entry(pack([kind, vars(commit)]))
        try:
            write_whole(self._disk, self._descriptor, entry, self._end)
            if self._durable:
                self._disk.sync(self._descriptor)
        except OSError as error:
            # What the disk now holds is not known; a cut entry makes the next life refuse, which is what it should do.
            self._broken = True
            with suppress(OSError):
                self._disk.truncate(self._descriptor, self._end)
            raise LocalProtocolError(f"{self.path} cannot be written: {error.strerror}; nothing was sent") from error
        self._end += len(entry)

    def _load(self) -> Identity:
        """Check every byte; the identity and what was done are then known."""
        if os.fstat(self._descriptor).st_mode & 0o077:
            raise BadInput(f"others can read {self.path}; run `chmod 600` and make a new state")
        try:
            content = read_whole(self._disk, self._descriptor)
        except OSError as error:
            raise BadInput(f"the state {self.path} cannot be read: {error.strerror}") from error
        if not content.startswith(MAGIC):
            raise BadInput(f"{self.path} is not a node's state")
        try:
            payloads, self._end = list(self._chain.payloads(content)), len(content)
        except ValueError as error:
            otherwise = "no node may use it, make a new one with `parley node init`"
            raise BadInput(f"the state {self.path} is {error}; {otherwise}") from None
        try:
            identity, *commits = map(unpack, payloads)
            for kind, fields in commits:
                self.memory.note(KINDS[kind](**fields))
            return Identity(**{**identity, "consent": Consent(**identity["consent"])})
        except (RemoteProtocolError, TypeError, AttributeError, KeyError, ValueError) as error:
            raise BadInput(f"the state {self.path} is not a valid state of a node: {error}") from error


def save_evidence(folder: Path, evidence: Evidence) -> Path:
    """Keep what a node has seen, for `parley audit --against`; the same once, and beside what else is there."""
    content = EVIDENCE_MAGIC + pack(vars(evidence))
    path, number = folder / f"evidence-{evidence.round}.parley", 1
    while True:
        try:
            with open(path, "xb") as file:
                file.write(content)
        except FileExistsError:
            if path.read_bytes() != content:
                number += 1
                path = folder / f"evidence-{evidence.round}-{number}.parley"
                continue
        except OSError as error:
            raise LocalProtocolError(f"{evidence.reason}; {path} cannot be written: {error.strerror}") from error
        return path


def load_evidence(path: Path) -> Evidence:
    try:
        content = path.read_bytes()
        if not content.startswith(EVIDENCE_MAGIC):
            raise BadInput(f"{path} is not evidence that a node kept")
        evidence = Evidence(**unpack(content[len(EVIDENCE_MAGIC) :]))
    except (OSError, RemoteProtocolError, TypeError) as error:
        raise BadInput(f"the evidence {path} cannot be read: {error}") from error
    # It comes from a stranger.
    types = {name: type(value) for name, value in vars(evidence).items()}
    if types != EVIDENCE or set(map(type, evidence.frames)) - {bytes}:
        raise BadInput(f"{path} is not evidence that a node kept: its fields are not of the right types")
    return evidence
