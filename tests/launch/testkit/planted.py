"""Nodes with a planted fault each, for the search to find."""

from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import addressed
from parley.emulator.roles.node_memory import Memory
from parley.emulator.wire.codec import decode, open_envelope
from parley.emulator.wire.messages import Message, Replies
from parley.launch.cluster.virtual_run import Parts
from parley.nodes.analyst import AnalystNode
from parley.nodes.board import BoardNode
from parley.nodes.state.user_state import State


class ForgetfulState(State):
    """A node that comes back and does not remember what it has answered."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.memory = Memory()


class ForgetfulBoard(BoardNode):
    """A board that, having been restarted, does not write down the first chunk it hears, and counts it all the same."""

    _forgets = False

    def restore(self, now: float) -> None:
        super().restore(now)
        self._forgets = self._length > 0

    async def put(self, said: list[tuple[str, Message]], frames: dict[int, bytes] | None = None) -> None:
        if self._forgets and any(isinstance(message, Replies) for _, message in said):
            self._forgets = False
            said = [each for each in said if not isinstance(each[1], Replies)]
        await super().put(said, frames)


class CountsTwice(AnalystNode):
    """An analyst that takes a record which is delivered again for another one."""

    def _take(self, sealed: bytes) -> None:
        sequence, _, frame = open_envelope(sealed)
        if sequence < self.expected:
            message = decode(frame)
            if isinstance(message, Replies) and message.round == self.role.round and not self.role.pending:
                self.role.hear(message)
        super()._take(sealed)


def coins_of_the_round(key: bytes, question: bytes, first: int, users: int, size: int) -> np.ndarray[Any, Any]:
    """Coins that are the same whatever is asked."""
    return addressed(key, 1, first, users, size)


PLANTED = {
    "node forgets its journal": Parts(state=ForgetfulState),
    "board forgets a chunk": Parts(board=ForgetfulBoard),
    "analyst counts twice": Parts(analyst=CountsTwice),
}
