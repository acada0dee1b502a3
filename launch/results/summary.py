"""The result record of a run, from its transcript alone; what only an emulation knows is added beside it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import LocalProtocolError, TranscriptError
from parley.emulator.protocol import Protocol
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import BROADCASTS, Announce, Message, Reminder, Replies, Result, Roster, Setup
from parley.protocols.registry import build
from parley.protocols.workloads.lipschitz import Lipschitz


@dataclass
class Summary:
    """Counts over a record.

    `bytes_up` is the size of all reply frames divided by the users; `bytes_down` is the size of the broadcasts, each
    once, for every user hears each of them. Neither counts repetitions, which are transport.
    """

    setup: Setup | None = None
    result: Result | None = None
    seated: int = 0
    observed: int = 0
    sent_up: int = 0
    sent_down: int = 0
    began: float = 0.0
    ended: float = 0.0
    _protocol: Protocol | None = None
    _asked: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _answered: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    _waiting: bool = False

    def take(self, message: Message, size: int, time: float) -> None:
        """Count one recorded message."""
        self.began = self.began or time
        self.ended = time
        if isinstance(message, BROADCASTS) and not isinstance(message, Reminder):
            self.sent_down += size
        if isinstance(message, Roster):
            self.seated = message.users
        elif isinstance(message, Setup):
            self._begin(message)
        elif isinstance(message, Announce):
            self._ask(message)
        elif isinstance(message, Replies):
            self._answer(message, size)
        elif isinstance(message, Result):
            self.result = message

    @property
    def protocol(self) -> Protocol:
        """What was spoken; LocalProtocolError if the run did not get so far."""
        if self._protocol is None:
            raise LocalProtocolError("the transcript holds no setup: its run did not begin")
        return self._protocol

    @property
    def replied(self) -> int:
        """Users who answered every round they were asked in."""
        return int(np.count_nonzero((self._asked > 0) & (self._answered == self._asked)))

    def record(self) -> dict[str, Any]:
        """The result record; LocalProtocolError if the run did not get so far."""
        if self.setup is None or self.result is None:
            raise LocalProtocolError("the transcript holds no result: its run did not complete")
        users = len(self._asked)
        return {
            "protocol": self.setup.protocol,
            "statistic": statistic_name(self.setup),
            "users": users,
            "replied": self.replied,
            "epsilon": self.setup.epsilon,
            "delta": self.setup.delta,
            "rounds": {"declared": self.setup.rounds, "observed": self.observed},
            "estimate": self.result.estimate,
            "predicted_rmse": self.result.predicted_rmse,
            "interval95": [self.result.low, self.result.high],
            "truth": None,
            "error": None,
            "bytes_up": self.sent_up / users,
            "bytes_down": float(self.sent_down),
            "seconds": self.ended - self.began,
            "silent": self.result.details.get("silent_for_wallets", 0),
        }

    def _begin(self, setup: Setup) -> None:
        self.setup = setup
        self._protocol = build(setup.protocol, setup.parameters)
        self._asked = np.zeros(self.seated, np.int64)
        self._answered = np.zeros(self.seated, np.int64)

    def _ask(self, announce: Announce) -> None:
        """A broadcast opens a round only in the eyes of those who answer it: replies must follow."""
        self._waiting = True
        if self._protocol is not None and 1 <= announce.round <= len(self._protocol.rounds):
            self._asked += self._protocol.rounds[announce.round - 1].participates(np.arange(len(self._asked)))

    def _answer(self, replies: Replies, size: int) -> None:
        # A round is a broadcast followed by replies; nobody's word is taken for how many there were.
        self.observed += self._waiting
        self._waiting = False
        self.sent_up += size
        if len(replies.users) and int(replies.users[-1]) >= len(self._answered):
            raise TranscriptError(f"{replies.node} answers for user {replies.users[-1]}, who was never seated")
        self._answered[replies.users] += 1


def statistic_name(setup: Setup) -> str | None:
    """What the protocol's parameters say is estimated."""
    workload = setup.parameters.get("workload")
    if not isinstance(workload, dict):
        return None
    name, function = workload.get("statistic"), workload.get("function")
    # A Lipschitz loss is called by its distance, where it has one with a name.
    if name == Lipschitz.name and isinstance(function, str):
        return function
    return name if isinstance(name, str) else None


def summarize(transcript: Path) -> Summary:
    """Read a transcript to its end."""
    summary = Summary()
    for record in TranscriptReader(transcript):
        summary.take(record.message, len(record.frame), record.time)
    return summary
