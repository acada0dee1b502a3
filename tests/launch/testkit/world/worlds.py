"""The worlds that tests explore: two users, a tiny domain, one round or several."""

from functools import cache

from parley.emulator.protocol import Protocol
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity

ROUNDS = {1: "one-round", 2: "two-round", 3: "three-round"}


@cache
def small(rounds: int, users: int = 2) -> Protocol:
    return design(ROUNDS[rounds], GiniDiversity(levels=2), epsilon=1.0, users=users)


@cache
def behind_a_shuffler(users: int = 2) -> Protocol:
    return design("shuffled", GiniDiversity(levels=2), epsilon=1.0, delta=1e-6, users=users)
