"""Who takes part in a run and under which terms."""

import errno
import math
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from parley.emulator.coins import nonce_from_key
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.question import Question
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import Terms
from parley.emulator.roles.consent import domain_of
from parley.emulator.roles.mixing import draw_seed_from_key
from parley.emulator.roles.shards.boards import SHARD_PREFIX, board_of
from parley.emulator.transport.conditions import Conditions, read_conditions
from parley.emulator.wire.security import RELAY_PREFIX
from parley.launch.cluster.keyring import Keyring, parties
from parley.launch.processes.limits import check_room
from parley.nodes.state.wallet import StoredWallet

SECONDS_TO_JOIN = 0.2
SHARD_SHARE = 0.9
LOOPBACK = "127.0.0.1"


def shares(users: int, processes: int) -> Iterator[tuple[int, int]]:
    """First user and number of users of each process: parts as equal as can be."""
    each, more = divmod(users, processes)
    for part in range(processes):
        yield part * each + min(part, more), each + (part < more)


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout:
    """Who takes part in a run and under which terms; checked before anything is written or started."""

    protocol: Protocol
    inputs: Inputs
    key: bytes
    processes: int
    deadline: float = 600.0
    quorum: float = 1.0
    join_deadline: float = 60.0
    port: int | None = None
    conditions: Path | None = None
    keys: Path | None = None
    secure: bool = False
    opening_key: bytes = b""
    restarts: int = 3
    relays: int = 0
    shards: int = 0
    host: str = LOOPBACK
    elsewhere: bool = False
    domain: Mapping[str, Any] | None = None
    # What the header of the record says, and what only the emulation knows about its data.
    question: Question | None = None
    source: Mapping[str, Any] | None = None
    repeatable: bool = False
    signed: bool = True
    wallet: Path | None = None
    in_memory: bool = False

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise BadInput(f"--processes {self.processes} starts nobody; give a number from 1 on")
        if self.processes > self.users:
            raise BadInput(f"{self.processes} processes for {self.users} users: some would host nobody; give fewer")
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise BadInput(f"--deadline {self.deadline} cannot be kept; give a positive number of seconds")
        if self.shards:
            self._check_shards()
        self.terms("check")
        self._check_medium()
        if not (self.elsewhere or self.in_memory):
            check_room(self.processes, self.relays)
        if self.port is not None:
            check_ports(self.port, self.host)
        if self.restarts < 0:
            raise BadInput(f"--restarts {self.restarts} makes no sense; give 0 or more")
        if not 0 <= self.relays <= self.processes:
            raise BadInput(
                f"--relays {self.relays} cannot serve {self.processes} user nodes; give 0 to {self.processes}"
            )
        if self.relays and self.shuffled:
            raise BadInput(
                "--relays and a shuffler contradict each other: the shuffler stands before the board already"
            )
        if self.elsewhere and (self.relays or self.shuffled or self.conditions is not None):
            raise BadInput("relays, a shuffler and --conditions need user nodes on this machine; leave out --on")
        if self.keys is not None and self.secure:
            raise BadInput("--keys and --secure contradict each other: keys from a folder, or fresh ones")
        if self.wallet is not None and self.elsewhere:
            raise BadInput("--wallet needs user nodes on this machine; leave out --on")
        for name, _, users in self.cohorts() if self.wallet is not None else ():
            folder = self.wallet_of(name)
            if folder is None or not folder.is_dir() or StoredWallet.terms_of(folder).users != users:
                what = f"{folder} is not a wallet of the {users} users of {name}"
                raise BadInput(f"{what}; make it with `parley wallet create --processes {self.processes}`")
        if self.keys is not None:
            Keyring(folder=self.keys).check(self.parties)

    def _check_medium(self) -> None:
        """What can only happen in virtual time, and what only between processes."""
        virtual = next((fault for fault in self.parsed_conditions.faults if fault.is_virtual), None)
        if virtual is not None and not self.in_memory:
            what = f"{virtual.kind} at step {virtual.step}" if virtual.step else virtual.kind
            raise BadInput(f"conditions: {what} can only happen in virtual time; give --in-memory")
        if self.in_memory and (self.elsewhere or self.secure or self.keys is not None or self.port is not None):
            raise BadInput("--in-memory has no links and no ports; leave out --on, --secure, --keys and --port")

    def _check_shards(self) -> None:
        """What does not go together with several boards, in one sentence each."""
        if not 2 <= self.shards <= self.processes:
            most = "" if self.processes < 2 else f"; give 2 to {self.processes}"
            raise BadInput(f"--shards {self.shards} cannot share {self.processes} user nodes{most}")
        if self.shuffled:
            raise BadInput("--shards and a shuffler contradict each other: users hide in one crowd, at one board")
        if self.relays:
            raise BadInput("--shards and --relays contradict each other: a shard's board serves its own user nodes")
        if self.in_memory:
            raise BadInput("--shards needs boards of their own; leave out --in-memory")
        if self.port is not None:
            raise BadInput("--shards needs three ports for each board; leave out --port")

    @cached_property
    def parsed_conditions(self) -> Conditions:
        """What the conditions file says; without one, nothing happens."""
        return Conditions() if self.conditions is None else read_conditions(self.conditions)

    @property
    def meaning(self) -> Mapping[str, Any]:
        """What the inputs mean: the columns they come from, or just how many there are."""
        return domain_of(self.protocol.inputs) if self.domain is None else self.domain

    @property
    def nonce(self) -> bytes:
        """The nonce of an experiment that is to be repeated; empty where the board draws it."""
        return nonce_from_key(self.key) if self.repeatable else b""

    @property
    def draw_seed(self) -> bytes:
        """What fixes the shuffler's draws in an experiment that is to be repeated; empty where it draws afresh."""
        return draw_seed_from_key(self.key) if self.repeatable else b""

    def witness(self, run: str) -> Witness:
        return Witness(run=run, key=self.key, inputs=self.inputs, source=self.source or {})

    @property
    def users(self) -> int:
        return len(self.inputs)

    @property
    def shuffled(self) -> bool:
        return self.protocol.claim.trusts == "shuffler"

    @property
    def relay_names(self) -> list[str]:
        return [f"{RELAY_PREFIX}-{number}" for number in range(self.relays)]

    @cached_property
    def relay_of(self) -> dict[str, str]:
        """The relay of each user node, neighbours together; nothing without relays."""
        names = self.nodes if self.relays else []
        return {name: f"{RELAY_PREFIX}-{place * self.relays // len(names)}" for place, name in enumerate(names)}

    @property
    def shard_names(self) -> list[str]:
        return [f"{SHARD_PREFIX}{number}" for number in range(self.shards)]

    @cached_property
    def shard_of(self) -> dict[str, str]:
        """The shard of each user node, neighbours together; nothing where there is one board."""
        names = self.nodes if self.shards else []
        return {name: f"{SHARD_PREFIX}{place * self.shards // len(names)}" for place, name in enumerate(names)}

    @property
    def nodes(self) -> list[str]:
        return [name for name, _, _ in self.cohorts()]

    @property
    def parties(self) -> list[str]:
        between = [*self.relay_names, *self.shard_names, *map(board_of, self.shard_names)]
        return parties(self.nodes, shuffler=self.shuffled, relays=between)

    def terms(self, run: str) -> Terms:
        """What the board is told; to it, a shuffler is one node that hosts everybody."""
        return Terms(
            run=run,
            users=self.users,
            nodes=1 if self.shuffled else self.shards or self.processes,
            deadline=self.deadline,
            quorum=self.quorum,
            # Starting a process takes its time, and a crowd shares the processors.
            join_deadline=max(self.join_deadline, SECONDS_TO_JOIN * self.processes),
        )

    def shard_terms(self, run: str, shard: str) -> Terms:
        """What the board of a shard is told: it must be done before the head board gives a round up."""
        whole = self.terms(run)
        return replace(
            whole,
            nodes=list(self.shard_of.values()).count(shard),
            deadline=SHARD_SHARE * whole.deadline,
            join_deadline=SHARD_SHARE * whole.join_deadline,
            # It waits for the other shards, too.
            analyst_deadline=whole.analyst_deadline + whole.deadline + whole.join_deadline,
        )

    def cohorts(self) -> Iterator[tuple[str, int, int]]:
        """Name, first user and number of users of each user node: parts as equal as can be."""
        for number, (first, users) in enumerate(shares(self.users, self.processes)):
            yield f"node-{number}", first, users

    def wallet_of(self, node: str) -> Path | None:
        """The wallet of a user node: the folder itself where there is one node, else the node's own part of it."""
        if self.wallet is None or self.processes == 1:
            return self.wallet
        return self.wallet / node


def check_ports(port: int, host: str = LOOPBACK) -> None:
    """Inbox, feed and delivery get three ports in a row, and all three must be free."""
    if not 1 <= port <= 65533:
        raise BadInput(f"--port {port} cannot be used; give a number from 1 to 65533")
    for number in range(port, port + 3):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((host, number))
            except OSError as error:
                why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound ({error.strerror})"
                raise BadInput(f"port {number} {why}; choose another --port or leave it out") from error
