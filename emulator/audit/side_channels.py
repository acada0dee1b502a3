"""Side channels: the size of a reply, its presence and its order must not depend on the input.

Tested from the witness. A user that is missing from a frame is compared with those around it; that whole frames are
missing is a matter of the network, unless each holds one user. The order in which frames came is held against their
inputs with the users' numbers taken out, since nodes are started in the order of their numbers.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.audit.statistics import Family, average_ranks
from parley.emulator.audit.verdict import Verdict, failed, unknown, witnessed
from parley.emulator.randomizer import Floats, Layout, layout
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Users

GROUPS = 16
FEWEST_ABSENT = 20
FEWEST_FRAMES = 20
ROUNDING = 1e-9
NOTHING_TO_TEST = (
    f"not tested: fewer than {FEWEST_ABSENT} users are missing, and no round has {FEWEST_FRAMES} frames whose order "
    "could reveal more than the users' numbers do"
)


@dataclass
class Presence:
    """Who of some users is absent, group by group of inputs: observed minus expected, and its covariance.

    Within each stratum the absent are a random subset if absence does not depend on the input.
    """

    off: Floats = field(default_factory=lambda: np.zeros(GROUPS))
    covariance: Floats = field(default_factory=lambda: np.zeros((GROUPS, GROUPS)))
    absent: int = 0

    def add(self, groups: NDArray[np.int64], absent: NDArray[np.bool_]) -> None:
        """One stratum: the group of each user, and whether it is absent."""
        users, missing = len(groups), int(absent.sum())
        if not 0 < missing < users:
            return
        share = np.bincount(groups, minlength=GROUPS) / users
        self.off += np.bincount(groups[absent], minlength=GROUPS) - missing * share
        self.covariance += missing * (users - missing) / (users - 1) * (np.diag(share) - np.outer(share, share))
        self.absent += missing

    def test(self, family: Family, what: str) -> None:
        """Chi-square on as many groups as the absent allow."""
        if self.absent < FEWEST_ABSENT:
            return
        merged = max(2, min(GROUPS, self.absent // 10))
        pool = np.zeros((merged, GROUPS))
        pool[np.arange(GROUPS) * merged // GROUPS, np.arange(GROUPS)] = 1.0
        off, covariance = pool @ self.off, pool @ self.covariance @ pool.T
        values, vectors = np.linalg.eigh(covariance)
        # Less than that is rounding: where all inputs fall into one group, there is nothing else.
        real = values > ROUNDING * self.absent
        if rank := int(np.count_nonzero(real)):
            statistic = float(np.sum((off @ vectors[:, real]) ** 2 / values[real]))
            family.add(f"{what}, presence", self.absent, statistic, float(scipy.special.chdtrc(rank, statistic)))


@dataclass
class Channel:
    """What one round's frames tell besides their content."""

    layouts: set[Layout] = field(default_factory=set)
    presence: Presence = field(default_factory=Presence)
    alone: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)


def check_side_channels(conversation: Conversation, witness: Witness | None) -> Verdict:
    """Sizes, presence and order of every round's replies."""
    protocol, witness = witnessed(witness, conversation, exact=True)
    inputs = witness.inputs
    group_of = np.arange(protocol.inputs) * GROUPS // max(GROUPS, protocol.inputs)
    channels: dict[int, Channel] = {}
    lone = np.array([seat.first for seat in conversation.seats if seat.users == 1], dtype=np.int64)
    for _, replies in conversation.replies("side channels"):
        users = replies.users
        if not len(users) or not 1 <= replies.round <= len(protocol.rounds):
            continue
        channel = channels.setdefault(replies.round, Channel())
        channel.layouts.add(layout(replies.columns))
        channel.first.append(int(users[0]))
        channel.mean.append(float(inputs[users].mean()))
        if len(users) == 1 and np.isin(users[0], lone):
            channel.alone.append(int(users[0]))
        else:
            span = np.arange(int(users[0]), int(users[-1]) + 1)
            asked = span[protocol.rounds[replies.round - 1].participates(span)]
            channel.presence.add(group_of[inputs[asked]], ~np.isin(asked, users))
    family = Family()
    for number, channel in sorted(channels.items()):
        if len(channel.layouts) > 1:
            reason = f"round {number}: replies come in {len(channel.layouts)} different sizes"
            return failed(reason, tests=0, p_value=0.0)
        asked = lone[(lone < len(inputs)) & protocol.rounds[number - 1].participates(lone)]
        channel.presence.add(group_of[inputs[asked]], ~np.isin(asked, channel.alone))
        channel.presence.test(family, f"round {number}")
        _order(family, f"round {number}", np.array(channel.first), np.array(channel.mean))
    if not family.tests:
        return unknown(NOTHING_TO_TEST, tests=0, sizes="one per round")
    return family.judge("it depends on the input", sizes="one per round")


def _order(family: Family, what: str, first: Users, mean: Floats) -> None:
    """Spearman's rank correlation of arrival and input, with the users' numbers partialled out."""
    count = len(first)
    if count < FEWEST_FRAMES:
        return
    ranks = [average_ranks(each) for each in (np.arange(count), first, mean)]
    rest = [_without(ranks[1], ranks[0]), _without(ranks[1], ranks[2])]
    spread = np.sqrt((rest[0] @ rest[0]) * (rest[1] @ rest[1]))
    # Where numbers explain order or inputs entirely, nothing is left that could depend.
    if spread <= 1e-9 * count**3:
        return
    correlation = float(np.clip(rest[0] @ rest[1] / spread, -1.0, 1.0))
    statistic = correlation * np.sqrt((count - 3) / max(1e-12, 1 - correlation**2))
    family.add(f"{what}, order", count, correlation, float(2 * scipy.special.stdtr(count - 3, -abs(statistic))))


def _without(given: Floats, values: Floats) -> Floats:
    """What a linear function of `given` does not explain of `values`."""
    centred, other = values - values.mean(), given - given.mean()
    power = other @ other
    rest: Floats = centred - other * (other @ centred / power) if power else centred
    return rest
