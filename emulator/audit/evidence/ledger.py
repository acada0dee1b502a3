"""What a block of users said, and how likely that was under each of the k inputs."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.emulator.randomizer import Floats, row_bytes
from parley.emulator.record.answers import Answers
from parley.emulator.round import Round
from parley.emulator.wire.messages import Users

# Rows of likelihoods made at once: temporary arrays stay at a few times 16 MiB whatever a frame holds.
_MOST_NUMBERS = 2**21
NAMED = 20


@dataclass(frozen=True, kw_only=True)
class Offence:
    """One thing that no honest node does, and who did it."""

    user: int
    round: int
    record: int
    what: str

    def __str__(self) -> str:
        return f"user {self.user}, round {self.round} (record {self.record}): {self.what}"


class Ledger:
    """The exact log-likelihoods of some users' messages over all rounds: one row per user, one column per input."""

    def __init__(self, users: Users, inputs: int) -> None:
        self.users = users
        self.sums: Floats = np.zeros((len(users), inputs))
        self.offences: list[Offence] = []
        self.offended = 0
        self._said: dict[int, NDArray[np.uint8]] = {}
        self._spoke: dict[int, NDArray[np.bool_]] = {}

    @property
    def losses(self) -> Floats:
        """max over x, x' of log p(messages | x) - log p(messages | x'), for each user."""
        high, low = self.sums.max(axis=1), self.sums.min(axis=1)
        # Messages that are impossible under every input were noted as offences; they say nothing about the input.
        losses: Floats = np.where(np.isneginf(high), 0.0, high - np.where(np.isneginf(high), 0.0, low))
        return losses

    def take(self, answers: Answers) -> None:
        """Add those answers that belong to this block. Arrays are as declared, nobody is there twice."""
        place = np.minimum(np.searchsorted(self.users, answers.users), len(self.users) - 1)
        row = np.flatnonzero(self.users[place] == answers.users)
        for start in range(0, len(row), max(1, _MOST_NUMBERS // self.sums.shape[1])):
            part = row[start : start + max(1, _MOST_NUMBERS // self.sums.shape[1])]
            some = replace(
                answers,
                records=answers.records[part],
                users=answers.users[part],
                columns={name: column[part] for name, column in answers.columns.items()},
            )
            self._add(some, place[part])

    def _add(self, answers: Answers, place: NDArray[np.intp]) -> None:
        step, columns = answers.step, answers.columns
        good = step.check(answers.public, columns)
        self._note(answers, ~good, "a reply outside the output space")
        self._note(answers, ~step.participates(answers.users), "it was not this user's turn")
        counted = good & self._fresh(answers, place)
        if not counted.any():
            return
        with np.errstate(all="ignore"):
            rows = step.log_likelihood(answers.public, {name: column[counted] for name, column in columns.items()})
        rows = np.where(np.isnan(rows), -np.inf, rows)
        impossible = np.flatnonzero(counted)[np.isneginf(rows).all(axis=1)]
        self._note(answers, impossible, "a reply no input could have caused")
        self.sums[place[counted]] += rows

    def _fresh(self, answers: Answers, place: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which replies add something: the first of a user in a round, and any other one with other bytes."""
        number, said = answers.round, row_bytes(answers.columns, len(place))
        if number not in self._said:
            self._said[number] = np.zeros((len(self.users), said.shape[1]), np.uint8)
            self._spoke[number] = np.zeros(len(self.users), np.bool_)
        again = self._spoke[number][place]
        other = again & (self._said[number][place] != said).any(axis=1)
        self._note(answers, other, "a second answer with other bytes")
        self._said[number][place[~again]] = said[~again]
        self._spoke[number][place] = True
        fresh: NDArray[np.bool_] = ~again | other
        return fresh

    def _note(self, answers: Answers, which: NDArray[np.bool_] | NDArray[np.intp], what: str) -> None:
        users, records = answers.users[which], answers.records[which]
        self.offended += len(users)
        for user, record in zip(users, records, strict=True):
            if len(self.offences) == NAMED:
                return
            self.offences.append(Offence(user=int(user), round=answers.round, record=int(record), what=what))


def reply_bytes(step: Round) -> int:
    """Bytes of one user's reply."""
    return sum(dtype.itemsize * int(np.prod(shape, dtype=np.int64)) for dtype, shape in step.reply.values())
