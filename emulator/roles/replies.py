"""What the users of a cohort say: the one place where inputs are read, after everything has been decided.

Coins are bound to the question, so that drawing a reply again gives the same bytes. A wallet, where there is one, says
who may answer; it decides from public things alone.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import coins
from parley.emulator.errors import LocalProtocolError, ParleyError
from parley.emulator.protocol import Inputs, Protocol, Trust
from parley.emulator.round import Round
from parley.emulator.wire.messages import Announce, Replies, Setup, Users

if TYPE_CHECKING:
    from parley.emulator.roles.wallet.entries import View
    from parley.emulator.roles.wallet.wallet import Wallet

CHUNK = 4096
# A large cohort sends larger frames, so that it sends few: neither a lost one nor the cost of a frame weighs much.
LARGEST_CHUNK = 2**16
USUAL_CHUNKS = 64


def chunk_for(users: int) -> int:
    """Users of a frame for a cohort of this size: a power of two."""
    return min(LARGEST_CHUNK, max(CHUNK, 1 << (users // USUAL_CHUNKS).bit_length()))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Speakers:
    """The users of one node, their coins and their wallet; no text shows them.

    `wallet`: what these users may give away over many runs; `view` says what a run's inputs are to it.
    """

    node: str
    first: int
    inputs: Inputs
    key: bytes
    chunk: int = CHUNK
    wallet: "Wallet | None" = None
    view: "Callable[[Setup], View] | None" = None

    @property
    def chunks(self) -> int:
        return max(1, -(-len(self.inputs) // self.chunk))

    @property
    def users(self) -> Users:
        return np.arange(self.first, self.first + len(self.inputs), dtype=np.int64)

    @cached_property
    def mark(self) -> bytes:
        """Tells these inputs from others, to who has the key."""
        mac = hmac.new(self.key, b"parley inputs", hashlib.sha256)
        # In pieces: all at once they would take eight bytes a user.
        for start in range(0, len(self.inputs), LARGEST_CHUNK):
            mac.update(self.inputs[start : start + LARGEST_CHUNK].astype("<i8").tobytes())
        return mac.digest()

    def can_afford(self, setup: Setup, protocol: Protocol, trusts: Trust) -> bool:
        """Whether any of them can take part in a run at all."""
        if self.wallet is None:
            return True
        view = None if self.view is None else self.view(setup)
        return bool(self.wallet.accept(setup.run, protocol, trusts=trusts, view=view).any())

    def silent(self, announce: Announce, step: Round) -> int:
        """How many are asked in a round and stay silent because their wallets refuse."""
        may = self._may(announce, step)
        return 0 if may is None else int((step.participates(self.users) & ~may).sum())

    def answer(
        self, protocol: Protocol, announce: Announce, question: bytes, wanted: Iterable[int]
    ) -> Iterator[Replies]:
        step = protocol.rounds[announce.round - 1]
        may, flip = self._may(announce, step), partial(coins, self.key, question)
        alike: dict[str, Any] = {"run": announce.run, "round": announce.round, "node": self.node, "question": question}
        for chunk in wanted:
            part = slice(chunk * self.chunk, (chunk + 1) * self.chunk)
            allowed = None if may is None else may[part]
            try:
                first = self.first + part.start
                users, columns = step.draw(announce.broadcast, self.inputs[part], first, flip, allowed)
            except (ParleyError, ArithmeticError, LookupError, ValueError) as error:
                # What went wrong may tell an input, so it is neither a refusal nor part of what is said.
                what = f"{protocol.name} gave no reply in round {announce.round}"
                raise LocalProtocolError(f"node {self.node}: {what}; this node says nothing more") from error
            if self.wallet is not None:
                said = step.complete(announce.broadcast, users, columns)
                self.wallet.said(announce.run, announce.round, users - self.first, said)
            yield Replies(chunk=chunk, chunks=self.chunks, users=users, columns=columns, **alike)

    def _may(self, announce: Announce, step: Round) -> NDArray[np.bool_] | None:
        """Whom the wallet lets answer this question; None where there is no wallet."""
        if self.wallet is None:
            return None
        return self.wallet.grant(announce.run, announce.round, announce.broadcast, step.participates(self.users))
