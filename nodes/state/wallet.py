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
from parley.emulator.randomizer import Integers
from parley.emulator.roles.wallet.entries import Accepted, Entry, Granted, Mask, Said, Terms, View
from parley.emulator.roles.wallet.wallet import Builder, Wallet
from parley.emulator.wire.codec import pack, unpack
from parley.emulator.wire.messages import Setup
from parley.nodes.state.disk import Disk
from parley.nodes.state.log import Log
from parley.protocols.registry import build
from parley.protocols.workloads.declared import view_of

MAGIC = b"PARLEYW1"
WHAT = "wallet"


class StoredWallet(Wallet):
    """The wallet of a folder. Only one process at a time has it open."""

    def __init__(self, terms: Terms, builder: Builder, log: Log | None) -> None:
        super().__init__(terms, builder, self._append)
        self._log = log
        # Protocols by their digest: runs of the same one do not write it down again.
        self._described: dict[bytes, tuple[str, Mapping[str, Any]]] = {}

    @classmethod
    def create(cls, folder: Path, terms: Terms, *, disk: Disk | None = None) -> None:
        """A new folder with an empty wallet; refuses one that exists."""
        Log.create(folder, WHAT, MAGIC, pack(vars(terms)), disk or Disk())

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        users: int,
        domain: Mapping[str, Any] | None = None,
        inputs: int | None = None,
        disk: Disk | None = None,
        durable: bool = True,
        builder: Builder = build,
    ) -> Self:
        """The wallet of these users, locked; BadInput where it is missing, cut, in use or somebody else's.

        Without `durable` an entry survives the death of the process, but not of the machine: enough for an emulation.
        """
        log, entries = Log.resume(folder, WHAT, MAGIC, disk or Disk(), durable)
        try:
            wallet = cls(_read_terms(folder, entries[0]), builder, log)
            wallet._check(folder, users, domain, inputs)
            wallet._take_all(folder, entries[1:])
        except BaseException:
            log.close()
            raise
        return wallet

    @classmethod
    def look(cls, folder: Path, *, disk: Disk | None = None, builder: Builder = build) -> Self:
        """The wallet as it is now, to be looked at only; another process may have it open."""
        entries = Log.look(folder, WHAT, MAGIC, disk or Disk())
        wallet = cls(_read_terms(folder, entries[0]), builder, None)
        wallet._take_all(folder, entries[1:])
        return wallet

    @staticmethod
    def terms_of(folder: Path) -> Terms:
        """What a wallet was made for."""
        return _read_terms(folder, Log.look(folder, WHAT, MAGIC, Disk())[0])

    def view(self, setup: Setup) -> View:
        """What the inputs of a run are to this wallet."""
        return view_of(self.terms.domain, setup.domain)

    def close(self) -> None:
        """Let others open it."""
        if self._log is not None:
            self._log.close()

    def _check(self, folder: Path, users: int, domain: Mapping[str, Any] | None, inputs: int | None) -> None:
        terms = self.terms
        if terms.users != users:
            raise BadInput(f"the wallet {folder} is for {terms.users} users, not {users}; use their own")
        if terms.mode == "sum":
            return
        if inputs is not None and terms.inputs != inputs:
            raise BadInput(f"the wallet {folder} covers {terms.inputs} inputs, not {inputs}; use another one")
        if domain is not None and pack(dict(terms.domain)) != pack(dict(domain)):
            raise BadInput(f"the wallet {folder} covers another domain; use the one made for these columns")

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
        """An entry as plain data."""
        if isinstance(entry, Accepted):
            digest, view = _digest(entry), entry.view
            known = digest in self._described
            return {
                "kind": "accepted",
                "run": entry.run,
                "digest": digest,
                "protocol": None if known else entry.protocol,
                # As bytes: parameters may be nested as deep as a value can be.
                "parameters": None if known else pack(dict(entry.parameters)),
                "trusts": entry.trusts,
                "domain": None if view.domain is None else dict(view.domain),
                "coarsening": view.coarsening,
                "flat": entry.flat,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "mask": np.packbits(entry.mask),
            }
        if isinstance(entry, Granted):
            return {
                "kind": "granted",
                "run": entry.run,
                "round": entry.round,
                "broadcast": dict(entry.broadcast),
                "reserved": entry.reserved,
                "asked": None if entry.asked.all() else np.packbits(entry.asked),
                "mask": np.packbits(entry.mask),
            }
        return {
            "kind": "said",
            "run": entry.run,
            "round": entry.round,
            "places": _pack_places(entry.places),
            "columns": dict(entry.columns),
        }

    def _unpacked(self, plain: dict[str, Any]) -> Entry:
        """The entry of plain data whose checksum is right."""
        kind = plain["kind"]
        if kind == "accepted":
            if plain["protocol"] is not None:
                self._described[plain["digest"]] = plain["protocol"], unpack(plain["parameters"])
            protocol, parameters = self._described[plain["digest"]]
            return Accepted(
                run=plain["run"],
                protocol=protocol,
                parameters=parameters,
                trusts=plain["trusts"],
                view=View(domain=plain["domain"], coarsening=plain["coarsening"]),
                flat=plain["flat"],
                epsilon=plain["epsilon"],
                delta=plain["delta"],
                mask=self._mask(plain["mask"]),
            )
        if kind == "granted":
            everybody = np.ones(self.terms.users, np.bool_)
            return Granted(
                run=plain["run"],
                round=plain["round"],
                broadcast=plain["broadcast"],
                reserved=plain["reserved"],
                asked=everybody if plain["asked"] is None else self._mask(plain["asked"]),
                mask=self._mask(plain["mask"]),
            )
        if kind == "said":
            places = _unpack_places(plain["places"])
            return Said(run=plain["run"], round=plain["round"], places=places, columns=plain["columns"])
        raise ValueError(f"an entry of the kind {kind!r:.80}")

    def _mask(self, packed: NDArray[np.uint8]) -> Mask:
        return np.unpackbits(packed, count=self.terms.users).astype(np.bool_)


def _read_terms(folder: Path, payload: bytes) -> Terms:
    try:
        return Terms(**unpack(payload))
    except (RemoteProtocolError, TypeError) as error:
        raise BadInput(f"the terms of the wallet {folder} are invalid: {error}") from error


def _digest(entry: Accepted) -> bytes:
    return hashlib.sha256(pack([entry.protocol, dict(entry.parameters)])).digest()


def _pack_places(places: Integers) -> Any:
    """First and number where they follow each other, as chunks of a cohort do; else all of them."""
    if len(places) and np.array_equal(places, np.arange(places[0], places[0] + len(places))):
        return (int(places[0]), len(places))
    return places.astype(np.uint32)


def _unpack_places(packed: Any) -> Integers:
    if isinstance(packed, tuple):
        return np.arange(packed[0], packed[0] + packed[1], dtype=np.int64)
    return np.asarray(packed, dtype=np.int64)
