"""Fidelity through a shuffler: the bag of recorded messages is the bag that witness and coins give.

The same messages in another order, and an order that says nothing about who sent them.
"""

import numpy as np

from parley.emulator.audit.evidence.preconditions import belongs, spoken
from parley.emulator.audit.evidence.statistics import Family
from parley.emulator.audit.verdict import Verdict, failed, passed, unknown
from parley.emulator.record.bags import Bag, bags, unmatched
from parley.emulator.record.conversation import Conversation, Progress, quiet
from parley.emulator.record.witness import Witness


def check_shuffled_fidelity(conversation: Conversation, witness: Witness, progress: Progress = quiet) -> Verdict:
    """The recorded bag is the witness's, and the order tells nothing."""
    setup, protocol = spoken(conversation)
    belongs(witness, setup)
    family, compared = Family(), 0
    for number, recorded, replayed in bags(conversation, protocol, witness):
        missing = unmatched(recorded, replayed)
        if missing is None:
            return unknown(f"round {number}: users are missing, and the shares of only some users cannot be told apart")
        if missing:
            return failed(f"round {number}: {missing} messages are not those of the witness", tests=1, p_value=0.0)
        compared += any(len(recorded.whole(name)) for name in recorded.prints)
        _order(family, number, recorded, replayed)
        progress("fidelity", number, len(protocol.rounds))
    if compared and not family.tests:
        return passed(tests=compared, p_value=1.0, order="not tested: too few messages occur once")
    return family.judge("the order of the batch depends on the users")


def _order(family: Family, number: int, recorded: Bag, replayed: Bag) -> None:
    """Rank correlation of place in the batch and user number, for messages that occur once."""
    from scipy.stats import spearmanr

    for name in list(recorded.prints)[:1]:
        ours, theirs = recorded.whole(name), replayed.whole(name)
        values, first, counts = np.unique(theirs, return_index=True, return_counts=True)
        place = np.searchsorted(values, ours)
        place = np.minimum(place, len(values) - 1)
        once = (values[place] == ours) & (counts[place] == 1)
        if once.sum() >= 20:
            found = spearmanr(np.flatnonzero(once), first[place[once]])
            family.add(f"round {number}, order of {name}", int(once.sum()), float(found[0]), float(found[1]))
