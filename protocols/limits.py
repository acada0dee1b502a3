"""What a stranger's setup may ask of a user's node: two limits on its work, checked before it is done, and on numbers.

Work is counted in numbers: 64-bit words that are drawn, computed or kept. The limits are fixed, not read off the
machine, because analyst and users must agree on what is too much. The number of inputs k is a matter of its own: a
user says which k it consents to, and `registry.inputs_of` reads k before anything is built.

| limit        | numbers   | of what                                                                  | about          |
|--------------|-----------|--------------------------------------------------------------------------|----------------|
| `MOST_REPLY` | 2^20      | one user's reply in one round: candidates x dimension, categories, coins | 5 ms           |
| `MOST_SETUP` | 2^26      | what a node computes once: a dense matrix, all vectors, a diagonal       | 0.5 GiB, 1 s   |
"""

import math
from collections.abc import Mapping
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import WORD_BYTES

MOST_REPLY = 1 << 20
MOST_SETUP = 1 << 26
MOST_USERS = 10**10


def check_many(inputs: int) -> None:
    """Vectors and oracles are as long as there are inputs: refused before anything that long is made."""
    if inputs > MOST_REPLY:
        raise BadInput(f"{inputs} inputs are more than the limit of {MOST_REPLY}; use fewer levels")


def check_setup(what: str, rows: int, columns: int) -> None:
    """Refuse a rows x columns computation that every node would have to do."""
    if rows * columns > MOST_SETUP:
        raise BadInput(
            f"{what} takes {rows} x {columns} numbers, more than the limit of {MOST_SETUP} a node computes once; "
            "use fewer levels"
        )


def check_work(protocol: Protocol) -> None:
    """No round asks more than `MOST_REPLY` numbers of a user. This makes all randomizers, so wrong ones are refused."""
    for number, step in enumerate(protocol.rounds, 1):
        sent = sum(math.prod(shape) for _, shape in (*step.broadcast.values(), *step.reply.values()))
        needed = max(step.work, sent, -(-step.coins // WORD_BYTES))
        if needed > MOST_REPLY:
            raise BadInput(
                f"round {number} of {protocol.name} takes {needed} numbers for each user's reply, more than the limit "
                f"of {MOST_REPLY}; use fewer levels or candidates"
            )


def check_sums(protocol: Protocol, users: int) -> None:
    """The sums of so many replies fit into 64 bits, whatever the replies are."""
    for step in protocol.rounds:
        for send in step.usual.values():
            most = max(map(abs, send.randomizer.reach or (0,)))
            if users * most >= 2**63:
                raise BadInput(
                    f"{protocol.name} adds up at most {(2**63 - 1) // most} replies exactly, not {users}; take fewer "
                    "users, or a protocol that counts replies, such as two-round-tuned"
                )


def mapping(parameters: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = parameters.get(name)
    if value is None:
        raise BadInput(f"protocol parameters: {name} is missing")
    if not isinstance(value, Mapping):
        raise BadInput(f"protocol parameter {name} is not a map")
    return value


def check_users(users: int) -> int:
    if not 2 <= users <= MOST_USERS:
        raise BadInput(f"{users} users are too few for pairs or too many; give a number from 2 to {MOST_USERS}")
    return users
