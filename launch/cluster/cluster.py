"""A cluster on this machine: a board, an analyst and user nodes as processes, watched to their end."""

import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.sealing import save_secret
from parley.emulator.wire.security import write_relays
from parley.launch.cluster.event_reporter import EventReporter
from parley.launch.cluster.fault_driver import plan_strikes
from parley.launch.cluster.keyring import Keyring, make_keyring, parties
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import Signers, make_signers, write_states
from parley.launch.cluster.supervisor import Supervisor
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import Exit, Processes, last_lines
from parley.launch.results.folder import RunFolder
from parley.launch.results.follow import Follower, close_broken
from parley.launch.results.progress import Progress
from parley.nodes.analyst import write_plan
from parley.nodes.common import UNFINISHED, read_addresses

__all__ = ["Cluster", "Layout"]

LOOK_SECONDS = 0.05
LOOK_SHARE = 3
LEAVE_SECONDS = 3.0
WARM_UP_FROM = 16


class Hosts(Protocol):
    """Who runs the user nodes of a run when they are not processes of this machine."""

    def begin(self, layout: Layout, folder: RunFolder, keyring: Keyring | None, signers: Signers) -> None:
        """The board is up: start every user node."""

    def step(self) -> list[str]:
        """Look after them; a line for each that had to be started again."""

    def end(self) -> None:
        """The run is over, or broken off."""


class Cluster:
    """One run from its folder to its last process."""

    def __init__(
        self,
        layout: Layout,
        folder: RunFolder,
        progress: Progress,
        hosts: Hosts | None = None,
        processes: Processes | None = None,
    ) -> None:
        """`processes`: those that were begun ahead, while the problem was still being read."""
        self.layout = layout
        self.hosts = hosts
        self._processes = processes or Processes()
        self.folder = folder
        self.progress = progress
        self.follower = Follower(
            folder.transcript,
            nodes=layout.terms("check").nodes,
            users=layout.users,
            declared=layout.protocol.claim.rounds,
            protocol=layout.protocol,
        )
        self._hosted = {name: users for name, _, users in layout.cohorts()}
        self._keyring: Keyring | None = None
        self._signers = Signers(by_name={})
        self._leave = math.inf

    def run(self, then: Callable[[], None] | None = None) -> None:
        """Make the folder, start everybody, watch to the end. Raises if the run did not complete.

        `then` is done as soon as the record is complete, while a crowd of user nodes is still leaving.
        """
        self.folder.create()
        try:
            try:
                self._prepare()
            except OSError as error:
                raise LocalProtocolError(f"{self.folder.path} cannot be written: {error.strerror}") from error
            with self._processes as processes, self._supervisor(processes) as supervisor:
                try:
                    self._start(processes, supervisor)
                    self._watch(processes, supervisor, lambda: self.follower.closed)
                    if then is not None and self.follower.completed:
                        then()
                    self._watch(processes, supervisor, lambda: False)
                    self.follower.check_completed()
                finally:
                    if self.hosts is not None:
                        self.hosts.end()
        except BadInput:
            # A board that could not be started: nothing has happened yet, so leave nothing.
            if not self.follower.ended:
                shutil.rmtree(self.folder.path)
            raise
        except BaseException as error:
            # Everybody is gone by now, so the record is ours to end.
            with undisturbed():
                close_broken(self.folder.transcript, self.folder.run, error)
            raise
        finally:
            with undisturbed():
                self.folder.erase_secrets()

    def _prepare(self) -> None:
        protocol, layout, folder = self.layout.protocol, self.layout, self.folder
        write_plan(folder.plan, protocol, layout.meaning)
        Witness(run=folder.run, key=layout.key, inputs=layout.inputs).save(folder.witness)
        if layout.opening_key:
            save_secret(folder.opening_key, layout.opening_key)
        if layout.conditions is not None:
            folder.conditions.write_bytes(layout.conditions.read_bytes())
        if layout.relays:
            write_relays(folder.relays, layout.relay_of())
        if layout.secure:
            self._keyring = make_keyring(
                folder.keys, parties(layout.nodes, shuffler=layout.shuffled, relays=layout.relay_names)
            )
        elif layout.keys is not None:
            self._keyring = Keyring(folder=layout.keys)
        self._signers = make_signers(layout)
        write_states(layout, folder, self._signers, self._keyring)

    def _supervisor(self, processes: Processes) -> Supervisor:
        names = (BOARD_NAME, ANALYST_NAME, *self._middle, *self.layout.nodes)
        return Supervisor(
            command_lines=CommandLines(self.layout, self.folder, self._keyring),
            processes=processes,
            follower=self.follower,
            strikes=plan_strikes(self.layout.parsed_conditions, names),
            restarts=self.layout.restarts,
            reporter=self._reporter,
        )

    @property
    def _middle(self) -> tuple[str, ...]:
        """Who stands between users and board."""
        return (SHUFFLER_NAME,) if self.layout.shuffled else tuple(self.layout.relay_names)

    def _reporter(self) -> EventReporter:
        security = None if self._keyring is None else self._keyring.security(LAUNCHER_NAME)
        return EventReporter(read_addresses(self.folder.addresses), security)

    def _start(self, processes: Processes, supervisor: Supervisor) -> None:
        command_lines = supervisor.command_lines
        processes.spawn([command_lines.board()])
        # The others are made ready while the board comes up.
        crowd = self.folder.witness if self.layout.processes >= WARM_UP_FROM else None
        processes.prepare(self.folder.plan, crowd=crowd)
        self._await(processes, supervisor, self.folder.addresses)
        servers = ([command_lines.shuffler()] if self.layout.shuffled else []) + list(command_lines.relays())
        for command_line in servers:
            processes.spawn([command_line])
            self._await(processes, supervisor, self.folder.server_addresses(command_line.name))
        supervisor.begin()
        if self.hosts is not None:
            self.hosts.begin(self.layout, self.folder, self._keyring, self._signers)

    def _await(self, processes: Processes, supervisor: Supervisor, addresses: Path) -> None:
        """Wait until one whom others connect to says where it is; whoever a signal ends meanwhile comes back."""
        while not addresses.exists():
            for exit in processes.exits(0.005):
                if not supervisor.takes_back(exit):
                    raise self._stillborn(exit)
                self._name(exit)
            supervisor.bring_back()

    def _watch(self, processes: Processes, supervisor: Supervisor, enough: Callable[[], bool]) -> None:
        """Until it is enough or the board has ended; then give the others a moment to hear so and leave."""
        due = 0.0
        while not enough() and (processes.running or supervisor.busy) and time.monotonic() < self._leave:
            for exit in processes.exits(LOOK_SECONDS):
                if exit.status != 0:
                    self._show()
                if self._leave == math.inf and supervisor.takes_back(exit):
                    self._name(exit)
                    continue
                if exit.name == BOARD_NAME:
                    self._leave = time.monotonic() + LEAVE_SECONDS
                if exit.status != 0:
                    self._lament(exit)
            if supervisor.attentive or time.monotonic() >= due:
                # Reading the record takes what the nodes could use, so it gets a small share of the time.
                due = time.monotonic() + LOOK_SHARE * self._show()
            if self._leave == math.inf:
                self._tend(supervisor)
                supervisor.step()
        self._show()

    def _tend(self, supervisor: Supervisor) -> None:
        """See to the nodes that run elsewhere; what happened to them goes on record."""
        for line in self.hosts.step() if self.hosts is not None else ():
            self.progress.note(line)
            supervisor.fault_driver.reports["restart", line] = None

    def _show(self) -> float:
        """Look at the record and show how far it is; the seconds that took."""
        began = time.monotonic()
        for standing in self.follower.look():
            self.progress.show(standing)
        return time.monotonic() - began

    def _stillborn(self, exit: Exit) -> ParleyError:
        said = last_lines(self.folder.log(exit.name), 1)
        text = said[0].removeprefix("parley: ") if said else f"the {exit.name} {exit.cause}"
        return BadInput(text) if exit.status == 2 else LocalProtocolError(text)

    def _name(self, exit: Exit) -> None:
        """Name a node that died with the end of its log."""
        lines = "".join(f"\n    {line}" for line in last_lines(self.folder.log(exit.name)))
        self.progress.note(f"{exit.name} (process {exit.pid}) {exit.cause}; its log ends with:{lines}")

    def _lament(self, exit: Exit) -> None:
        """Without a node that died for good the run may be lost."""
        if self.follower.ended:
            return
        self._name(exit)
        self._hosted.pop(exit.name, None)
        present = sum(self._hosted.values())
        if exit.name in (BOARD_NAME, ANALYST_NAME, *self._middle) or present < self.layout.quorum * self.layout.users:
            raise LocalProtocolError(
                f"{exit.name} {exit.cause} and the run cannot finish without it{self._reason(exit)}; "
                f"see {self.folder.log(exit.name)}"
            )

    def _reason(self, exit: Exit) -> str:
        """What a node that gave up said last; on a full disk it may not have been able to write that down."""
        said = last_lines(self.folder.log(exit.name), 1)
        if exit.status == UNFINISHED and said and said[0].startswith("parley: "):
            return f" ({said[0].removeprefix('parley: ')})"
        full = exit.status > 0 and shutil.disk_usage(self.folder.path).free == 0
        return " (the disk is full)" if full else ""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, nobody's impatience keeps a record from being closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
