"""The replies of a record with the round and broadcast they answer, frame by frame or joined into larger parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Protocol, check_arrays
from parley.emulator.randomizer import Columns
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.round import Round, Tally
from parley.emulator.wire.messages import Replies, Users

# Users that are worth a call of their own: frames with fewer wait for others of their round.
PART = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Replies of different users in one round: row i is that of users[i], sent by nodes[i] in record records[i]."""

    round: int
    step: Round
    public: Broadcast
    users: Users
    columns: Columns
    records: NDArray[np.int64]
    nodes: NDArray[np.str_]

    @classmethod
    def of(cls, replies: Replies, step: Round, public: Broadcast, record: int = 0) -> "Answers":
        return cls(
            round=replies.round,
            step=step,
            public=public,
            users=replies.users,
            columns=replies.columns,
            records=np.full(len(replies.users), record, np.int64),
            nodes=np.full(len(replies.users), replies.node),
        )

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> "Answers":
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(
            self, users=self.users[rows], columns=columns, records=self.records[rows], nodes=self.nodes[rows]
        )

    @staticmethod
    def join(parts: Sequence["Answers"]) -> "Answers":
        """All rows of parts that answer the same question."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return replace(
            first,
            users=np.concatenate([part.users for part in parts]),
            columns={name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
            records=np.concatenate([part.records for part in parts]),
            nodes=np.concatenate([part.nodes for part in parts]),
        )


def malformed(protocol: Protocol, replies: Replies, refused: Mapping[int, str]) -> str:
    """Why a frame has no likelihood: nobody would answer its broadcast, or its arrays are not as declared."""
    wrong = refused.get(replies.round, "a reply to a round that was not announced")
    if wrong:
        return wrong
    try:
        check_arrays("the reply", replies.columns, protocol.rounds[replies.round - 1].reply, len(replies.users))
    except RemoteProtocolError as error:
        return str(error)
    return ""


def answers(
    conversation: Conversation, protocol: Protocol, what: str = "", progress: Progress = quiet
) -> Iterator[Answers]:
    """Every frame of replies that has a likelihood."""
    public, refused = conversation.broadcasts(), conversation.refused(protocol)
    for record, replies in conversation.replies(what, progress):
        if malformed(protocol, replies, refused) == "":
            step = protocol.rounds[replies.round - 1]
            yield Answers.of(replies, step, public[replies.round], record.sequence)


def joined(conversation: Conversation, protocol: Protocol) -> Iterator[Answers]:
    """The same in parts of many users each, in the order of the record. Nobody is in a part twice."""
    waiting: list[Answers] = []
    users: set[int] = set()
    for fresh in answers(conversation, protocol):
        speakers = set(fresh.users.tolist()) if len(fresh.users) < PART else set()
        if waiting and (not speakers or waiting[0].round != fresh.round or not users.isdisjoint(speakers)):
            yield Answers.join(waiting)
            waiting, users = [], set()
        waiting.append(fresh)
        users |= speakers
        if not speakers or len(users) >= PART:
            yield Answers.join(waiting)
            waiting, users = [], set()
    if waiting:
        yield Answers.join(waiting)


def tallies(conversation: Conversation, protocol: Protocol) -> dict[int, Tally]:
    """What the analyst keeps of each round: the sums over the replies that count."""
    found: dict[int, Tally] = {}
    for part in joined(conversation, protocol):
        good = part.take(part.step.check(part.public, part.columns) & part.step.participates(part.users))
        tally = part.step.tally(part.public, good.columns)
        found[part.round] = found[part.round] + tally if part.round in found else tally
    return found
