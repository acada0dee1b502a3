"""Chapter 5: a liar with a program of its own talks to a user's node: the real one, without a network between them."""

import sys

import numpy as np

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.simulate import make_cohorts
from parley.emulator.wire.messages import Announce, Replies
from parley.launch.testkit.contract.exact import setup_for
from parley.launch.testkit.target import find_target

USERS, LEVELS = 8000, 8
LIES = ((0.9, 0.1), (0.499, 0.501))


def ask(node, number, **numbers):
    """What the node answers to a question."""
    question = Announce(run="lie", round=number, broadcast={name: np.float64(each) for name, each in numbers.items()})
    return [said for said in node.hear(question) if isinstance(said, Replies)]


def main(file):
    protocol = find_target(file).case({"levels": LEVELS}).protocol
    values = np.arange(USERS) % LEVELS
    for low, high in LIES:
        (node,) = make_cohorts(protocol, values, key_from_seed(5), run="lie", nodes=1, chunk=USERS)
        list(node.hear(setup_for(protocol, run="lie")))
        ask(node, 1)
        try:
            (answer,) = ask(node, 2, low=low, high=high)
        except RemoteProtocolError as error:
            print(f"[{low}, {high}]: refused, {error}")
            continue
        right = np.mean(answer.columns["x.bit"] == (values >= LEVELS / 2))
        print(f"[{low}, {high}]: the replies put {right:.0%} of the users into the right half")


if __name__ == "__main__":
    main(sys.argv[1])
