"""Who takes part in a small world, in which parts, and with which keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.roles.relay import RelayRole
from parley.emulator.roles.replies import CHUNK
from parley.emulator.roles.shuffler import SHUFFLER_NAME, ShufflerRole
from parley.emulator.wire.security import RELAY_PREFIX
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.board import BoardNode
from parley.nodes.state.user_state import Identity

RUN = "small"
RELAY_NAME = f"{RELAY_PREFIX}-0"


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who plays which part. Tests put a faulty one in its place.

    `reopened` is what a user node finds on its disk when it comes back, given what it wrote and what it began with.
    """

    board: type[BoardRole] = BoardRole
    board_node: type[BoardNode] = BoardNode
    analyst: type[AnalystRole] = AnalystRole
    cohort: type[CohortRole] = CohortRole
    relay: type[RelayRole] = RelayRole
    shuffler: type[ShufflerRole] = ShufflerRole

    def reopened(self, disk: bytes, identity: Identity, fresh: Callable[[Identity], bytes]) -> bytes:
        return disk


@dataclass(frozen=True, kw_only=True)
class Parties:
    """Who takes part in a run, and with which keys: everything is fixed, so that the world has one quiet run."""

    protocol: Protocol
    inputs: Inputs
    nodes: int
    signed: bool = True
    chunk: int = CHUNK
    relayed: bool = False
    seed: int = 16
    cast: Cast = field(default_factory=Cast)

    def __post_init__(self) -> None:
        if self.relayed and self.shuffled:
            raise BadInput("a relay and a shuffler contradict each other: the shuffler stands before the board already")
        if not 1 <= self.nodes <= len(self.inputs):
            raise BadInput(f"{self.nodes} nodes cannot host {len(self.inputs)} users: give each node at least one user")

    @cached_property
    def key(self) -> bytes:
        return key_from_seed(self.seed)

    @cached_property
    def nonce(self) -> bytes:
        return nonce_from_key(self.key)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"node-{number}" for number in range(self.nodes))

    @property
    def shuffled(self) -> bool:
        """Whether a shuffler stands between nodes and board."""
        return self.protocol.claim.trusts == "shuffler"

    @property
    def middle(self) -> str:
        """Who stands between nodes and board; empty where nobody does."""
        return SHUFFLER_NAME if self.shuffled else RELAY_NAME if self.relayed else ""

    @property
    def server(self) -> str:
        """Whom user nodes speak to, and who speaks to them."""
        return self.middle or BOARD_NAME

    @property
    def seated(self) -> tuple[str, ...]:
        """Who has a seat at the board; to it, a shuffler is one node that hosts everybody."""
        return (SHUFFLER_NAME,) if self.shuffled else self.names

    @cached_property
    def signers(self) -> dict[str, Signer]:
        between = (SHUFFLER_NAME,) if self.shuffled else ()
        everybody = (ANALYST_NAME, BOARD_NAME, *between, *self.names) if self.signed else ()
        return {name: derived(self.key, name) for name in everybody}

    @property
    def public(self) -> dict[str, bytes]:
        """The key of everybody who signs."""
        return {name: signer.public for name, signer in self.signers.items()}

    @cached_property
    def keys(self) -> dict[str, bytes] | None:
        """Under which key each node must sign."""
        return {name: self.public[name] for name in self.names} if self.signed else None

    @cached_property
    def terms(self) -> Terms:
        return Terms(run=RUN, users=len(self.inputs), nodes=len(self.seated))

    @cached_property
    def consent(self) -> Consent:
        claim = self.protocol.claim
        return Consent(
            run=RUN,
            domain=domain_of(self.protocol.inputs),
            cap=claim.epsilon,
            delta=claim.delta,
            trusts=claim.trusts,
            analyst=self.public.get(ANALYST_NAME, b""),
            board=self.public.get(BOARD_NAME, b""),
            shuffler=self.public.get(SHUFFLER_NAME, b""),
        )

    @cached_property
    def identities(self) -> dict[str, Identity]:
        parts = np.array_split(np.arange(len(self.inputs)), self.nodes)
        return {
            name: Identity(
                node=name,
                first=int(part[0]),
                users=len(part),
                consent=self.consent,
                coin_key=self.key,
                signing_key=self.signers[name].secret if self.signed else b"",
            )
            for name, part in zip(self.names, parts, strict=True)
        }
