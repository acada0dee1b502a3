"""A wallet on disk: every run, question and reply is written down before anything follows from it.

A question is on disk before it is answered, and the reply before it is sent. A node that dies in between leaves a
reservation, which counts as the round's epsilon until the same question is answered.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Builder
from parley.emulator.randomizer import Integers
from parley.emulator.roles.wallet.entries import Accepted, Entry, Granted, Mask, Said, Terms, View
from parley.emulator.roles.wallet.wallet import Wallet
from parley.emulator.wire.codec import pack, unpack
from parley.emulator.wire.messages import Setup
from parley.nodes.state.disk import REAL, Disk
from parley.nodes.state.log import Log
from parley.protocols.registry import build
from parley.protocols.workloads.declared import view_of


class StoredWallet(Wallet):
    """The wallet of a folder. Only one process at a time has it open."""

    def __init__(self, terms: Terms, builder: Builder, log: Log | None) -> None:
        super().__init__(terms, builder, self._append)
        self._log = log
        # Protocols by their digest: runs of the same one do not write it down again.
        self._described: dict[bytes, tuple[str, Mapping[str, Any]]] = {}

    @classmethod
    def create(cls, folder: Path, terms: Terms, *, disk: Disk = REAL) -> None:
        """A new folder with an empty wallet; refuses one that exists."""
        Log.create(folder, pack(vars(terms)), disk)

    @classmethod
    def open(
        cls, folder: Path, *, users: int, disk: Disk = REAL, durable: bool = True, builder: Builder = build
    ) -> Self:
        """The wallet of these users, locked; BadInput where it is missing, cut, in use or somebody else's.

        Without `durable` an entry survives the death of the process, but not of the machine: enough for an emulation.
        """
        log, entries = Log.resume(folder, disk, durable)
        try:
            wallet = cls(_read_terms(folder, entries[0]), builder, log)
            if wallet.terms.users != users:
                raise BadInput(f"the wallet {folder} is for {wallet.terms.users} users, not {users}; use their own")
            wallet._take_all(folder, entries[1:])
        except BaseException:
            log.close()
            raise
        return wallet

    @classmethod
    def look(cls, folder: Path) -> Self:
        """The wallet as it is now, to be looked at only; another process may have it open."""
        entries = Log.look(folder, REAL)
        wallet = cls(_read_terms(folder, entries[0]), build, None)
        wallet._take_all(folder, entries[1:])
        return wallet

    @staticmethod
    def terms_of(folder: Path) -> Terms:
        return _read_terms(folder, Log.look(folder, REAL)[0])

    def view(self, setup: Setup) -> View:
        """What the inputs of a run are to this wallet."""
        return view_of(self.terms.domain, setup.domain)

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _take_all(self, folder: Path, entries: list[bytes]) -> None:
        try:
            for payload in entries:
                self.take(self._unpacked(unpack(payload)))
        except (RemoteProtocolError, LocalProtocolError, LookupError, TypeError, ValueError) as error:
            raise BadInput(f"the wallet {folder} holds an invalid entry: {error}") from error

    def _append(self, entry: Entry) -> None:
        if self._log is None:
            raise BadInput("this wallet is open for reading only; nobody answers")
        self._log.append(pack(self._packed(entry)))
        if isinstance(entry, Accepted):
            self._described.setdefault(_digest(entry), (entry.protocol, entry.parameters))

    def _packed(self, entry: Entry) -> dict[str, Any]:
        if isinstance(entry, Accepted):
            digest = _digest(entry)
            plain = {"kind": "accepted", **vars(entry), "digest": digest, "mask": np.packbits(entry.mask)}
            plain.update(vars(plain.pop("view")))
            # As bytes: parameters may be nested as deep as a value can be.
            described = (None, None) if digest in self._described else (entry.protocol, pack(entry.parameters))
            plain["protocol"], plain["parameters"] = described
            return plain
        if isinstance(entry, Granted):
            asked = None if entry.asked.all() else np.packbits(entry.asked)
            return {"kind": "granted", **vars(entry), "asked": asked, "mask": np.packbits(entry.mask)}
        return {"kind": "said", **vars(entry), "places": _pack_places(entry.places)}

    def _unpacked(self, plain: dict[str, Any]) -> Entry:
        """The entry of plain data whose checksum is right."""
        plain = dict(plain)
        kind = plain.pop("kind")
        if kind == "accepted":
            digest, protocol, parameters = (plain.pop(name) for name in ("digest", "protocol", "parameters"))
            if protocol is not None:
                self._described[digest] = protocol, unpack(parameters)
            protocol, parameters = self._described[digest]
            view = View(domain=plain.pop("domain"), coarsening=plain.pop("coarsening"))
            changed = {"protocol": protocol, "parameters": parameters, "view": view, "mask": self._mask(plain["mask"])}
            return Accepted(**{**plain, **changed})
        if kind == "granted":
            everybody = np.ones(self.terms.users, np.bool_)
            asked = everybody if plain["asked"] is None else self._mask(plain["asked"])
            return Granted(**{**plain, "asked": asked, "mask": self._mask(plain["mask"])})
        if kind == "said":
            return Said(**{**plain, "places": _unpack_places(plain["places"])})
        raise ValueError(f"an entry of the kind {kind!r:.80}")

    def _mask(self, packed: NDArray[np.uint8]) -> Mask:
        return np.unpackbits(packed, count=self.terms.users).astype(np.bool_)


def _read_terms(folder: Path, payload: bytes) -> Terms:
    try:
        return Terms(**unpack(payload))
    except (RemoteProtocolError, TypeError) as error:
        raise BadInput(f"the terms of the wallet {folder} are invalid: {error}") from error


def _digest(entry: Accepted) -> bytes:
    return hashlib.sha256(pack([entry.protocol, entry.parameters])).digest()


def _pack_places(places: Integers) -> Any:
    """First and number where they follow each other, as chunks of a cohort do; else all of them."""
    if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return (int(places[0]), len(places))
    return places.astype(np.uint32)


def _unpack_places(packed: Any) -> Integers:
    if isinstance(packed, tuple):
        return np.arange(packed[0], packed[0] + packed[1], dtype=np.int64)
    return np.asarray(packed, dtype=np.int64)
