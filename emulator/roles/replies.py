"""What the users of a cohort say: the one place where inputs are read, after everything has been decided.

Coins are bound to the question, so that drawing a reply again gives the same bytes. A wallet, where there is one, says
who may answer; it decides from public things alone.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

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


class Speakers:
    """The users of one node, their coins and their wallet."""

    def __init__(
        self,
        *,
        node: str,
        first: int,
        inputs: Inputs,
        key: bytes,
        chunk: int = CHUNK,
        wallet: "Wallet | None" = None,
        view: "Callable[[Setup], View] | None" = None,
    ) -> None:
        """`wallet`: what these users may give away over many runs; `view` says what a run's inputs are to it."""
        self._node = node
        self._first = first
        self._inputs = inputs
        self._key = key
        self._chunk = chunk
        self._wallet = wallet
        self._view = view

    @property
    def chunks(self) -> int:
        """Frames in which they answer."""
        return max(1, -(-len(self._inputs) // self._chunk))

    @property
    def users(self) -> Users:
        """Their numbers."""
        return np.arange(self._first, self._first + len(self._inputs), dtype=np.int64)

    def can_afford(self, setup: Setup, protocol: Protocol, trusts: Trust) -> bool:
        """Whether any of them can take part in a run at all."""
        if self._wallet is None:
            return True
        view = None if self._view is None else self._view(setup)
        return bool(self._wallet.accept(setup.run, protocol, trusts=trusts, view=view).any())

    def silent(self, announce: Announce, step: Round) -> int:
        """How many are asked in a round and stay silent because their wallets refuse."""
        may = self._may(announce, step)
        return 0 if may is None else int((step.participates(self.users) & ~may).sum())

    def answer(
        self, protocol: Protocol, announce: Announce, question: bytes, wanted: Iterable[int]
    ) -> Iterator[Replies]:
        """The wanted chunks of their answer to a broadcast."""
        step = protocol.rounds[announce.round - 1]
        may, flip = self._may(announce, step), partial(coins, self._key, question)
        for chunk in wanted:
            part = slice(chunk * self._chunk, (chunk + 1) * self._chunk)
            first = self._first + part.start
            allowed = None if may is None else may[part]
            try:
                users, columns = step.draw(announce.broadcast, self._inputs[part], first, flip, allowed)
            except (ParleyError, ArithmeticError, LookupError, ValueError) as error:
                # What went wrong may tell an input, so it is neither a refusal nor part of what is said.
                what = f"{protocol.name} gave no reply in round {announce.round}"
                raise LocalProtocolError(f"node {self._node}: {what}; this node says nothing more") from error
            if self._wallet is not None:
                self._wallet.said(announce.run, announce.round, users - self._first, columns)
            yield Replies(
                run=announce.run,
                round=announce.round,
                node=self._node,
                chunk=chunk,
                chunks=self.chunks,
                users=users,
                columns=columns,
                question=question,
            )

    def _may(self, announce: Announce, step: Round) -> NDArray[np.bool_] | None:
        """Whom the wallet lets answer this question; None where there is no wallet."""
        if self._wallet is None:
            return None
        return self._wallet.grant(announce.run, announce.round, announce.broadcast, step.participates(self.users))
