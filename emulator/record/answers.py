"""The replies of a record with the round and broadcast they answer, frame by frame or joined into larger parts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Protocol, check_arrays
from parley.emulator.randomizer import Columns
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.record.records import Record
from parley.emulator.round import Round, Tally
from parley.emulator.wire.messages import Replies, Users

# Users that are worth a call of their own: frames with fewer wait for others of their round.
PART = 4096


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Replies of different users in one round: row i is that of users[i], from record number records[i]."""

    records: NDArray[np.int64]
    round: int
    users: Users
    columns: Columns
    step: Round
    public: Broadcast


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
) -> Iterator[tuple[Record, Replies, Round, Broadcast]]:
    """Every frame of replies with its round and the broadcast it answers, if it has a likelihood."""
    public, refused = conversation.broadcasts(), conversation.refused(protocol)
    for record, replies in conversation.replies(what, progress):
        if malformed(protocol, replies, refused) == "":
            yield record, replies, protocol.rounds[replies.round - 1], public[replies.round]


def joined(conversation: Conversation, protocol: Protocol) -> Iterator[Answers]:
    """The same in parts of many users each, in the order of the record. Nobody is in a part twice."""
    waiting: list[Answers] = []
    users: set[int] = set()
    for record, replies, step, public in answers(conversation, protocol):
        numbers = np.full(len(replies.users), record.sequence, np.int64)
        fresh = Answers(
            records=numbers,
            round=replies.round,
            users=replies.users,
            columns=replies.columns,
            step=step,
            public=public,
        )
        speakers = set(replies.users.tolist()) if len(replies.users) < PART else set()
        if waiting and (not speakers or waiting[0].round != replies.round or not users.isdisjoint(speakers)):
            yield _join(waiting)
            waiting, users = [], set()
        waiting.append(fresh)
        users |= speakers
        if not speakers or len(users) >= PART:
            yield _join(waiting)
            waiting, users = [], set()
    if waiting:
        yield _join(waiting)


def _join(parts: list[Answers]) -> Answers:
    first = parts[0]
    if len(parts) == 1:
        return first
    return Answers(
        records=np.concatenate([part.records for part in parts]),
        round=first.round,
        users=np.concatenate([part.users for part in parts]),
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in first.columns},
        step=first.step,
        public=first.public,
    )


def tallies(conversation: Conversation, protocol: Protocol) -> dict[int, Tally]:
    """What the analyst keeps of each round: the sums over the replies that count."""
    found: dict[int, Tally] = {}
    for part in joined(conversation, protocol):
        good = part.step.check(part.public, part.columns) & part.step.participates(part.users)
        tally = part.step.tally(part.public, {name: column[good] for name, column in part.columns.items()})
        found[part.round] = found[part.round] + tally if part.round in found else tally
    return found
