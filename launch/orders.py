"""The command line of every process of a run, the first time and again."""

from collections.abc import Iterator
from dataclasses import replace

from emulator.board import ANALYST_NAME, BOARD_NAME
from emulator.shuffler import SHUFFLER_NAME
from launch.folder import RunFolder
from launch.keyring import Keyring
from launch.layout import Layout
from launch.processes import Order
from nodes.common import read_addresses

# A crowd of users must not keep board and analyst, whom all of them wait for, from the processor.
CROWD = 64
CROWD_NICENESS = 10
# The shuffler must be done before the board gives a round up.
SHUFFLER_SHARE = 0.9


class Orders:
    """What to start; `again` is what to start when it died: the same, and the board at the same ports."""

    def __init__(self, layout: Layout, folder: RunFolder, keyring: Keyring | None) -> None:
        self._layout, self._folder, self._keyring = layout, folder, keyring

    def board(self) -> Order:
        """The board, at free ports or at those that were asked for."""
        terms, folder = self._layout.terms(self._folder.run), self._folder
        arguments: dict[str, object] = {
            "--run": terms.run,
            "--users": terms.users,
            "--nodes": terms.nodes,
            "--transcript": folder.transcript,
            "--addresses": folder.addresses,
            "--deadline": terms.deadline,
            "--quorum": terms.quorum,
            "--join-deadline": terms.join_deadline,
        }
        if self._layout.port is not None:
            for offset, channel in enumerate(("--post", "--feed", "--desk")):
                arguments[channel] = f"tcp://127.0.0.1:{self._layout.port + offset}"
        return self._order(BOARD_NAME, BOARD_NAME, arguments)

    def analyst(self) -> Order:
        """The analyst."""
        opens = {"--opening-key": self._folder.opening_key} if self._layout.opening_key else {}
        arguments = {"--run": self._folder.run, "--plan": self._folder.plan, **opens, **self._link()}
        return self._order(ANALYST_NAME, ANALYST_NAME, arguments)

    def shuffler(self) -> Order:
        """The shuffler, at free ports or, when it comes back, at its old ones."""
        terms = self._layout.terms(self._folder.run)
        arguments = {
            "--run": terms.run,
            "--users": terms.users,
            "--nodes": self._layout.processes,
            "--own-addresses": self._folder.shuffler_addresses,
            "--deadline": SHUFFLER_SHARE * terms.deadline,
            "--quorum": terms.quorum,
            "--join-deadline": SHUFFLER_SHARE * terms.join_deadline,
            **self._link(),
        }
        return self._order(SHUFFLER_NAME, SHUFFLER_NAME, arguments)

    def users(self) -> Iterator[Order]:
        """Every user node; with a shuffler it takes the board's place before them."""
        claim = self._layout.protocol.claim
        front = {"--addresses": self._folder.shuffler_addresses} if self._layout.shuffled else {}
        for name, first, users in self._layout.cohorts():
            arguments = {
                "--node": name,
                "--first": first,
                "--users": users,
                "--witness": self._folder.witness,
                "--journal": self._folder.journal(name),
                "--cap": claim.epsilon,
                "--delta-cap": claim.delta,
                "--trust": claim.trusts,
                **self._link(),
                **front,
            }
            yield self._order(name, "user", arguments)

    def again(self, name: str) -> Order:
        """The order for a node that was running before."""
        if name == ANALYST_NAME:
            return self.analyst()
        if name == SHUFFLER_NAME:
            return self.shuffler()
        if name != BOARD_NAME:
            return next(order for order in self.users() if order.name == name)
        bound = read_addresses(self._folder.addresses)
        order = self.board()
        return replace(
            order, arguments=(*order.arguments, "--post", bound.post, "--feed", bound.feed, "--desk", bound.desk)
        )

    def _link(self) -> dict[str, object]:
        under = {} if self._layout.conditions is None else {"--conditions": self._folder.conditions}
        return {"--addresses": self._folder.addresses, **under}

    def _order(self, name: str, node: str, arguments: dict[str, object]) -> Order:
        if self._keyring is not None:
            server = SHUFFLER_NAME if node == "user" and self._layout.shuffled else BOARD_NAME
            arguments = {**arguments, **self._keyring.arguments(name, server)}
        words = tuple(str(word) for pair in arguments.items() for word in pair)
        niceness = CROWD_NICENESS if node == "user" and self._layout.processes >= CROWD else 0
        return Order(name=name, node=node, arguments=words, log=self._folder.log(name), niceness=niceness)
