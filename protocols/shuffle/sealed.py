"""A round whose replies are sealed for the analyst: whoever carries them sees boxes of one size and nothing else."""

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Broadcast, Inputs, Method, Protocol
from parley.emulator.randomizer import Array, Coins, Columns, Floats, Shape
from parley.emulator.round import Round, Tally
from parley.emulator.wire.messages import Users
from parley.emulator.wire.sealing import KEY_BYTES, OVERHEAD, open_boxes, public_of, seal

if TYPE_CHECKING:
    from parley.protocols.shuffle.shuffled import Shuffled

COLUMN = "sealed"


class SealedRound(Round):
    """A round with its replies in boxes. Without the analyst's secret key it can be answered, not read."""

    def __init__(self, protocol: Protocol, number: int, method: Method, *, key: bytes, secret: bytes = b"") -> None:
        super().__init__(protocol, number, method)
        self.inner = Round(protocol, number, method)
        self._key = key
        self._secret = secret
        self._opened: tuple[Array, Columns, NDArray[np.bool_]] | None = None

    @cached_property
    def reply(self) -> Shape:
        length = sum(dtype.itemsize * math.prod(trailing) for dtype, trailing in self.inner.reply.values())
        return {COLUMN: (np.dtype(np.uint8), (length + OVERHEAD,))}

    @cached_property
    def coins(self) -> int:
        return self.inner.coins + KEY_BYTES

    def check_broadcast(self, public: Broadcast) -> None:
        self.inner.check_broadcast(public)

    def outcomes(self, public: Broadcast) -> Columns | None:
        return None

    def respond(self, public: Broadcast, inputs: Inputs, coins: Coins, users: Users | None = None) -> Columns:
        replies = self.inner.respond(public, inputs, np.ascontiguousarray(coins[:, : self.inner.coins]), users)
        rows = [np.ascontiguousarray(replies[name]).view(np.uint8).reshape(len(inputs), -1) for name in sorted(replies)]
        return {COLUMN: seal(self._key, np.concatenate(rows, axis=1), coins[:, self.inner.coins :])}

    def check(self, public: Broadcast, replies: Columns) -> NDArray[np.bool_]:
        columns, good = self._open(replies)
        return np.asarray(good & self.inner.check(public, columns), dtype=np.bool_)

    def log_likelihood(self, public: Broadcast, replies: Columns) -> Floats:
        """Of what is in the boxes; their ephemeral keys do not depend on the input."""
        return self.inner.log_likelihood(public, self._open(replies)[0])

    def tally(self, public: Broadcast, replies: Columns) -> Tally:
        return self.inner.tally(public, self._open(replies)[0])

    def _open(self, replies: Columns) -> tuple[Columns, NDArray[np.bool_]]:
        """The replies in the open. The last ones are kept, because an analyst first checks and then adds up."""
        if not self._secret and len(replies[COLUMN]):
            raise LocalProtocolError("these replies are sealed for the analyst; give its opening key")
        if self._opened is None or self._opened[0] is not replies[COLUMN]:
            boxes = np.asarray(replies[COLUMN], dtype=np.uint8)
            messages, good = open_boxes(self._secret or bytes(KEY_BYTES), boxes)
            columns, start = dict[str, Array](), 0
            for name, (dtype, trailing) in sorted(self.inner.reply.items()):
                size = dtype.itemsize * math.prod(trailing)
                raw = np.ascontiguousarray(messages[:, start : start + size])
                columns[name] = raw.view(dtype).reshape(len(messages), *trailing)
                start += size
            self._opened = (replies[COLUMN], columns, good)
        return self._opened[1], self._opened[2]


def sealed(protocol: Protocol, secret: bytes) -> "Shuffled":
    """The protocol with replies sealed for the holder of this key, who can open them."""
    from parley.protocols.shuffle.shuffled import Shuffled

    if not isinstance(protocol, Shuffled):
        raise BadInput(f"replies of {protocol.name} cannot be sealed; shuffled is the protocol that can")
    return replace(protocol, seal=public_of(secret).hex(), opener=secret)


def unsealed(protocol: Protocol, secret: bytes) -> Protocol:
    """The protocol of a setup for one who holds the opening key."""
    from parley.protocols.shuffle.shuffled import Shuffled

    if not isinstance(protocol, Shuffled) or protocol.seal is None:
        return protocol
    if public_of(secret).hex() != protocol.seal:
        raise BadInput("the opening key is not the one that the replies of this run are sealed for")
    return replace(protocol, opener=secret)
