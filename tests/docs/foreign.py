"""A signed run between real processes, one of whose user nodes is docs/examples/foreign_node.py."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.messages import Message
from parley.emulator.wire.security import write_allowed, write_keys, write_signer, write_trust
from parley.emulator.wire.signatures import Signer
from parley.nodes.analyst import write_plan
from parley.nodes.state.user_state import Identity, State

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs" / "examples" / "foreign_node.py"
RUN, FOREIGN = "survey", "alice"
KEY = key_from_seed(7)
NONCE = bytes(range(16))
SECONDS = 120


@dataclass
class Table:
    """Who takes part: `cohorts` users for each node, of which the one called alice is the foreign node."""

    folder: Path
    protocol: Protocol
    cohorts: dict[str, int]
    cap: float = 64.0
    secure: bool = False
    signers: dict[str, Signer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, name in enumerate(("analyst", "board", *self.cohorts)):
            self.signers[name] = Signer(bytes([number + 1]) * 32)
        write_trust(self.trust, {name: signer.public for name, signer in self.signers.items()})
        for name in ("analyst", "board"):
            write_signer(self.folder / f"{name}.signing", self.signers[name])
        if self.secure:
            pairs = {name: make_keys() for name in self.signers}
            for name, pair in pairs.items():
                write_keys(self.folder / f"{name}.secret", pair)
            board = pairs.pop("board").public
            write_allowed(self.folder / "board.public", {board: "board"})
            write_allowed(self.folder / "allowed.public", {pair.public: name for name, pair in pairs.items()})
        write_plan(self.folder / "plan", self.protocol)
        for name in self.cohorts:
            State.create(self.folder / name, self.identity(name))
            np.save(self.folder / f"{name}.npy", self.inputs_of(name))

    @property
    def trust(self) -> Path:
        return self.folder / "trust.toml"

    @property
    def transcript(self) -> Path:
        return self.folder / "transcript.parley"

    @property
    def addresses(self) -> Path:
        return self.folder / "addresses.json"

    @property
    def users(self) -> int:
        return sum(self.cohorts.values())

    @property
    def inputs(self) -> Inputs:
        return np.random.default_rng(3).integers(0, self.protocol.inputs, self.users)

    @property
    def witness(self) -> Witness:
        return Witness(run=RUN, key=KEY, inputs=self.inputs)

    def first_of(self, name: str) -> int:
        names = list(self.cohorts)
        return sum(self.cohorts[each] for each in names[: names.index(name)])

    def inputs_of(self, name: str) -> Inputs:
        return self.inputs[self.first_of(name) : self.first_of(name) + self.cohorts[name]]

    def identity(self, name: str) -> Identity:
        consent = Consent(
            run=RUN,
            domain=domain_of(self.protocol.inputs),
            cap=self.cap,
            analyst=self.signers["analyst"].public,
            board=self.signers["board"].public,
        )
        return Identity(
            node=name,
            first=self.first_of(name),
            users=self.cohorts[name],
            consent=consent,
            coin_key=KEY,
            signing_key=self.signers[name].secret,
        )

    def records(self) -> list[Record]:
        return list(TranscriptReader(self.transcript))

    def heard(self, kind: type[Message]) -> list[Record]:
        return [record for record in self.records() if isinstance(record.message, kind)]

    def links(self, name: str) -> tuple[object, ...]:
        """What a command line says about CURVE keys."""
        if not self.secure:
            return ()
        other = ("--allowed", self.folder / "allowed.public")
        if name != "board":
            other = ("--board-key", self.folder / "board.public")
        return ("--keys", self.folder / f"{name}.secret", *other)

    def board(self, *more: object) -> "subprocess.Popen[str]":
        terms = ("--run", RUN, "--users", self.users, "--nodes", len(self.cohorts), "--addresses", self.addresses)
        # The nonce is fixed, so that a run draws the same replies each time it is tested.
        signed = ("--signing-key", self.folder / "board.signing", "--trust", self.trust, "--nonce", NONCE.hex())
        links = self.links("board")
        return self.start("-m", "parley.nodes.board", *terms, *signed, *links, "--transcript", self.transcript, *more)

    def analyst(self) -> "subprocess.Popen[str]":
        signed = ("--signing-key", self.folder / "analyst.signing", "--addresses", self.addresses)
        return self.start(
            "-m", "parley.nodes.analyst", "--run", RUN, "--plan", self.folder / "plan", *signed, *self.links("analyst")
        )

    def user(self, name: str, *, foreign: bool) -> "subprocess.Popen[str]":
        program = (SCRIPT,) if foreign else ("-m", "parley.nodes.user")
        own = ("--state", self.folder / name, "--inputs", self.folder / f"{name}.npy")
        return self.start(*program, *own, "--addresses", self.addresses, *self.links(name))

    def start(self, *arguments: object) -> "subprocess.Popen[str]":
        # The foreign node must not need a folder of Parley's: it runs where there is none.
        own = arguments[0] == SCRIPT
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": "" if own else str(ROOT)}
        return subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def await_board(self, board: "subprocess.Popen[str]") -> dict[str, str]:
        while not self.addresses.exists():
            assert board.poll() is None, board.communicate()[0]
        found: dict[str, str] = json.loads(self.addresses.read_text())
        return found


@contextmanager
def all_ended(processes: list["subprocess.Popen[str]"]) -> Iterator[None]:
    """Inside processes live; afterwards none does."""
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def play(table: Table) -> dict[str, str]:
    """Run to the end; what each process printed. Every one of them must end well."""
    processes = {"board": table.board()}
    started = list(processes.values())
    with all_ended(started):
        table.await_board(processes["board"])
        for name, process in (
            ("analyst", table.analyst()),
            *((name, table.user(name, foreign=name == FOREIGN)) for name in table.cohorts),
        ):
            processes[name] = process
            started.append(process)
        said = {name: process.communicate(timeout=SECONDS)[0] for name, process in processes.items()}
        ended = {name: process.returncode for name, process in processes.items()}
    assert set(ended.values()) == {0}, (ended, said)
    return said
