"""Some replies of each round, chosen at random: enough for a test, whatever the size of the run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parley.emulator.protocol import Broadcast, Protocol
from parley.emulator.randomizer import Columns
from parley.emulator.record.answers import answers
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Users


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Replies to one broadcast: one row per user, with the node that sent it."""

    public: Broadcast
    users: Users
    nodes: NDArray[np.str_]
    columns: Columns

    def take(self, rows: NDArray[np.intp]) -> "Sample":
        """Some of the rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Sample(public=self.public, users=self.users[rows], nodes=self.nodes[rows], columns=columns)


def gather(
    conversation: Conversation, protocol: Protocol, size: int, generator: np.random.Generator
) -> dict[int, Sample]:
    """At most `size` replies a round that lie in the output space, in the order of their users."""
    chosen = {number: _chosen(users, size, generator) for number, users in _answering(conversation, protocol).items()}
    pieces: dict[int, list[Sample]] = {}
    for _, replies, step, public in answers(conversation, protocol):
        rows = np.flatnonzero(chosen[replies.round].holds(replies.users))
        rows = rows[step.check(public, {name: column[rows] for name, column in replies.columns.items()})]
        nodes = np.full(len(replies.users), replies.node)
        whole = Sample(public=public, users=replies.users, nodes=nodes, columns=replies.columns)
        pieces.setdefault(replies.round, []).append(whole.take(rows))
    return {number: _join(parts) for number, parts in sorted(pieces.items())}


def _answering(conversation: Conversation, protocol: Protocol) -> dict[int, UserSet]:
    users: dict[int, UserSet] = {}
    for _, replies, _, _ in answers(conversation, protocol):
        users.setdefault(replies.round, UserSet()).add(replies.users)
    return users


def _chosen(users: UserSet, size: int, generator: np.random.Generator) -> UserSet:
    chosen = UserSet()
    chosen.add(users.choose(size, generator))
    return chosen


def _join(parts: list[Sample]) -> Sample:
    users = np.concatenate([part.users for part in parts])
    joined = Sample(
        public=parts[0].public,
        users=users,
        nodes=np.concatenate([part.nodes for part in parts]),
        columns={name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
    )
    return joined.take(np.argsort(users, kind="stable"))
