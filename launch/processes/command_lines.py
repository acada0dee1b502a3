"""The command line of every process of a run, the first time and again."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, Terms
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.transport.addresses import BoardAddresses
from parley.launch.cluster.keyring import Keyring
from parley.launch.cluster.layout import LOOPBACK, Layout
from parley.launch.processes.processes import CommandLine
from parley.launch.results.folder import RunFolder
from parley.nodes.common import read_addresses
from parley.nodes.user import SILENCE_SECONDS

# A crowd of users must not keep board and analyst, whom all of them wait for, from the processor.
CROWD = 64
CROWD_NICENESS = 10
# Nor may it fill the inbox by asking whether anybody is there: seconds of silence a node bears, for each in the crowd.
CROWD_SECONDS = 0.008
# The shuffler must be done before the board gives a round up.
SHUFFLER_SHARE = 0.9


class CommandLines:
    """What to start; `again` is what to start when it died: the same, and the board at the same ports.

    `hosts`: the IP addresses of boards that are to listen elsewhere than the others, by name.
    """

    def __init__(
        self, layout: Layout, folder: RunFolder, keyring: Keyring | None, hosts: Mapping[str, str] | None = None
    ) -> None:
        self._layout, self._folder, self._keyring = layout, folder, keyring
        self._hosts = {} if hosts is None else hosts

    def board(self) -> CommandLine:
        layout, folder, terms = self._layout, self._folder, self._layout.terms(self._folder.run)
        more: dict[str, object] = {"--quorum": terms.quorum}
        if layout.question is not None:
            more["--plan"] = folder.plan
        if layout.relays:
            more["--relays"] = folder.relays
        if layout.shards:
            # A flag has no word behind it.
            more["--whole"] = ""
        if layout.nonce:
            more["--nonce"] = layout.nonce.hex()
        return self._board(BOARD_NAME, terms, folder.transcript, folder.addresses, more)

    @property
    def between_boards(self) -> tuple[str, ...]:
        """Who must hear the end of a run of several boards, so that its users do."""
        return (*map(board_of, self._layout.shard_names), *self._layout.shard_names)

    def shard_boards(self) -> Iterator[CommandLine]:
        for shard in self._layout.shard_names:
            terms, transcript = self._layout.shard_terms(self._folder.run, shard), self._folder.shard_transcript(shard)
            more = {"--analyst-deadline": terms.analyst_deadline, "--shard": shard}
            addresses = self._folder.server_addresses(board_of(shard))
            yield self._board(board_of(shard), terms, transcript, addresses, more)

    def _board(
        self, name: str, terms: Terms, transcript: Path, addresses: Path, more: Mapping[str, object]
    ) -> CommandLine:
        """A board at free ports, at those that were asked for or, when it comes back, where others look for it."""
        arguments: dict[str, object] = {
            "--run": terms.run,
            "--users": terms.users,
            "--nodes": terms.nodes,
            "--transcript": transcript,
            "--addresses": addresses,
            "--deadline": terms.deadline,
            "--join-deadline": terms.join_deadline,
            **more,
        }
        # Until somebody has heard of its ports, any will do.
        host = self._hosts.get(name, self._layout.host)
        if addresses.exists() or self._layout.port is not None or host != LOOPBACK:
            wanted = BoardAddresses.on(f"[{host}]" if ":" in host else host, self._layout.port or 0)
            ports = read_addresses(addresses) if addresses.exists() else wanted
            arguments |= {"--inbox": ports.inbox, "--feed": ports.feed, "--delivery": ports.delivery}
        return self._command_line(name, BOARD_NAME, arguments)

    def sub_analysts(self) -> Iterator[CommandLine]:
        """Who answers for each shard."""
        for shard in self._layout.shard_names:
            head = {} if self._keyring is None else {"--head-key": self._keyring.public(BOARD_NAME)}
            arguments = {
                "--run": self._folder.run,
                "--name": shard,
                **self._link(),
                "--addresses": self._folder.server_addresses(board_of(shard)),
                "--head-addresses": self._folder.addresses,
                **head,
            }
            yield self._command_line(shard, "sub_analyst", arguments)

    def analyst(self) -> CommandLine:
        opens = {"--opening-key": self._folder.opening_key} if self._layout.opening_key else {}
        arguments = {"--run": self._folder.run, "--plan": self._folder.plan, **opens, **self._link()}
        return self._command_line(ANALYST_NAME, ANALYST_NAME, arguments)

    def shuffler(self) -> CommandLine:
        """The shuffler, at free ports or, when it comes back, at its old ones."""
        terms = self._layout.terms(self._folder.run)
        arguments: dict[str, object] = {
            "--run": terms.run,
            "--users": terms.users,
            "--nodes": self._layout.processes,
            "--own-addresses": self._folder.server_addresses(SHUFFLER_NAME),
            "--deadline": SHUFFLER_SHARE * terms.deadline,
            "--quorum": terms.quorum,
            "--join-deadline": SHUFFLER_SHARE * terms.join_deadline,
            "--state": self._folder.node_state(SHUFFLER_NAME),
            **self._link(),
        }
        if self._layout.draw_seed:
            arguments["--draw-seed"] = self._layout.draw_seed.hex()
        return self._command_line(SHUFFLER_NAME, SHUFFLER_NAME, arguments)

    def relays(self) -> Iterator[CommandLine]:
        """Every relay, at free ports or, when it comes back, at its old ones."""
        shares = Counter(self._layout.relay_of.values())
        for name in self._layout.relay_names:
            own = {"--name": name, "--nodes": shares[name], "--own-addresses": self._folder.server_addresses(name)}
            yield self._command_line(name, "relay", {**own, **self._link()})

    def users(self) -> Iterator[CommandLine]:
        """Every user node that runs here; a shuffler or a relay takes the board's place before them."""
        if self._layout.elsewhere:
            return
        for name in self._layout.nodes:
            server = self._server(name)
            arguments = {
                "--state": self._folder.node_state(name),
                "--witness": self._folder.witness,
                **({} if (wallet := self._layout.wallet_of(name)) is None else {"--wallet": wallet}),
                "--patience": max(SILENCE_SECONDS, CROWD_SECONDS * self._layout.processes),
                **self._link(),
                **({} if server == BOARD_NAME else {"--addresses": self._folder.server_addresses(server)}),
            }
            yield self._command_line(name, "user", arguments)

    def again(self, name: str) -> CommandLine:
        """The command line of a node that was running before."""
        alone = {ANALYST_NAME: self.analyst, SHUFFLER_NAME: self.shuffler, BOARD_NAME: self.board}
        if name in alone:
            return alone[name]()
        every = (*self.relays(), *self.shard_boards(), *self.sub_analysts(), *self.users())
        return next(command_line for command_line in every if command_line.name == name)

    def _server(self, node: str) -> str:
        """Whom a user node connects to."""
        if node in self._layout.shard_of:
            return board_of(self._layout.shard_of[node])
        return SHUFFLER_NAME if self._layout.shuffled else self._layout.relay_of.get(node, BOARD_NAME)

    def _link(self) -> dict[str, object]:
        under = {} if self._layout.conditions is None else {"--conditions": self._folder.conditions}
        return {"--addresses": self._folder.addresses, **under}

    def _command_line(self, name: str, node: str, arguments: dict[str, object]) -> CommandLine:
        if self._layout.signed and node != "user" and node != "relay":
            keys = {"--trust": self._folder.trust} if name != ANALYST_NAME else {}
            arguments = {**arguments, **keys, "--signing-key": self._folder.signing(name)}
        if self._keyring is not None:
            server = self._server(name) if node == "user" else BOARD_NAME
            if node in (BOARD_NAME, "sub_analyst"):
                server = board_of(name) if node == "sub_analyst" else name
            arguments = {**arguments, **self._keyring.arguments(name, server)}
        words = tuple(str(word) for pair in arguments.items() for word in pair if word != "")
        niceness = CROWD_NICENESS if node == "user" and self._layout.processes >= CROWD else 0
        return CommandLine(name=name, node=node, arguments=words, log=self._folder.log(name), niceness=niceness)
