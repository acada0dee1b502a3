"""A cluster on this machine: a board, an analyst and user nodes as processes, watched to their end."""

import math
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.sealing import save_secret
from parley.emulator.wire.security import write_relays
from parley.launch.cluster.fault_driver import plan_strikes
from parley.launch.cluster.keyring import Keyring, make_keyring
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import Signers, make_signers, write_states
from parley.launch.cluster.supervisor import EventReporter, Supervisor
from parley.launch.cluster.worker_processes import WorkerProcesses
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import Exit, Processes, last_lines
from parley.launch.results.display.progress import Progress, Standing
from parley.launch.results.folder import RunFolder
from parley.launch.results.follow import Follower, close_broken
from parley.launch.settings import signals
from parley.nodes.analyst import write_plan
from parley.nodes.common import UNFINISHED, read_addresses

if TYPE_CHECKING:
    from parley.launch.cluster.dask import Farm

# Nobody's impatience keeps a record from being closed.
IMPATIENCE = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS = 0.05
LOOK_SHARE = 3
LEAVE_SECONDS = 3.0
WARM_UP_FROM = 16


class Cluster:
    """One run from its folder to its last process."""

    def __init__(
        self,
        layout: Layout,
        folder: RunFolder,
        progress: Progress,
        hosts: "Farm | None" = None,
        processes: Processes | None = None,
    ) -> None:
        """`hosts`: who runs user nodes and boards of shards elsewhere.

        `processes`: begun ahead, while the problem was still being read.
        """
        self.layout, self.folder, self.progress, self.hosts = layout, folder, progress, hosts
        self._processes = processes
        nodes = layout.processes if layout.shards else layout.terms("check").nodes
        declared = layout.protocol.claim.rounds
        expected = Standing(nodes=nodes, users=layout.users, declared=declared)
        self.follower = Follower(folder.transcript, expected)
        self._hosted = {name: users for name, _, users in layout.cohorts()}
        self._shard_of: dict[str, list[str]] = {}
        for node, shard in layout.shard_of.items():
            for server in (shard, board_of(shard)):
                self._shard_of.setdefault(server, []).append(node)
        self._keyring: Keyring | None = None
        self._signers: Signers = {}
        self._leave = math.inf
        self._concluded = False
        self._time_ns = time.time_ns

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
            self._play(then)
            lost = LocalProtocolError("the board of this shard was lost, and the run went on without it")
            for shard in self.layout.shard_names:
                close_broken(self.folder.shard_transcript(shard), self.folder.run, lost, self._time_ns)
        except BadInput:
            # A board that could not be started: nothing has happened yet, so leave nothing.
            if not self.follower.ended:
                shutil.rmtree(self.folder.path)
            raise
        except BaseException as error:
            # Everybody is gone by now, so the record is ours to end.
            with signals(signal.SIG_IGN, *IMPATIENCE):
                for transcript in (self.folder.transcript, *map(self.folder.shard_transcript, self.layout.shard_names)):
                    close_broken(transcript, self.folder.run, error, self._time_ns)
            with suppress(ParleyError):
                self._show()
            if not isinstance(error, LocalProtocolError) or not self._conclude(then):
                raise
        finally:
            with signals(signal.SIG_IGN, *IMPATIENCE):
                self.folder.erase_secrets()

    def _play(self, then: Callable[[], None] | None) -> None:
        """From the first process to the last."""
        with (
            self._processes or Processes() as here,
            self._spread(here) as processes,
            self._supervisor(processes) as supervisor,
        ):
            try:
                self._start(processes, supervisor)
                self._watch(processes, supervisor, lambda: self.follower.closed)
                self._conclude(then)
                self._watch(processes, supervisor, lambda: False)
                self.follower.check_completed()
            finally:
                if self.hosts is not None:
                    self.hosts.end()

    def _conclude(self, then: Callable[[], None] | None) -> bool:
        """Do what is to be done once, when the analyst's last word is on record; whether this was the moment.

        A process may die just after that word, and we may hear of the death first: the run is complete all the same.
        """
        if self._concluded or not self.follower.completed:
            return False
        self._concluded = True
        if then is not None:
            then()
        return True

    def _prepare(self) -> None:
        layout, folder = self.layout, self.folder
        write_plan(folder.plan, layout.protocol, layout.meaning, layout.question)
        layout.witness(folder.run).save(folder.witness)
        if layout.opening_key:
            save_secret(folder.opening_key, layout.opening_key)
        if layout.conditions is not None:
            folder.conditions.write_bytes(layout.conditions.read_bytes())
        for shard in layout.shard_names:
            folder.shard_transcript(shard).parent.mkdir(parents=True)
        if layout.relays:
            write_relays(folder.relays, layout.relay_of)
        if layout.secure:
            self._keyring = make_keyring(folder.keys, layout.parties)
        elif layout.keys is not None:
            self._keyring = Keyring(folder=layout.keys)
        self._signers = make_signers(layout)
        write_states(layout, folder, self._signers, self._keyring)

    @property
    def _middle(self) -> tuple[str, ...]:
        """Who stands between users and board."""
        if self.layout.shards:
            return (*map(board_of, self.layout.shard_names), *self.layout.shard_names)
        return (SHUFFLER_NAME,) if self.layout.shuffled else tuple(self.layout.relay_names)

    def _spread(self, here: Processes) -> AbstractContextManager[Processes | WorkerProcesses]:
        """The processes of this run, wherever they are."""
        if self.hosts is None or not self.layout.shards:
            return nullcontext(here)
        return WorkerProcesses(here, self.hosts.workers, self.layout, self.folder)

    def _supervisor(self, processes: Processes | WorkerProcesses) -> Supervisor:
        layout, folder, keyring = self.layout, self.folder, self._keyring

        def reporter() -> EventReporter:
            security = None if keyring is None else keyring.security(LAUNCHER_NAME)
            return EventReporter(read_addresses(folder.addresses), security)

        strikes = plan_strikes(layout.parsed_conditions, (BOARD_NAME, ANALYST_NAME, *self._middle, *layout.nodes))
        elsewhere = processes.hosts if isinstance(processes, WorkerProcesses) else None
        command_lines = CommandLines(layout, folder, keyring, elsewhere)
        return Supervisor(command_lines, processes, self.follower, strikes, layout.restarts, reporter)

    def _start(self, processes: Processes | WorkerProcesses, supervisor: Supervisor) -> None:
        command_lines = supervisor.command_lines
        processes.spawn([command_lines.board()])
        # The others are made ready while the board comes up.
        crowd = self.folder.witness if self.layout.processes >= WARM_UP_FROM else None
        processes.prepare(self.folder.plan, crowd=crowd)
        self._await(processes, supervisor, self.folder.addresses)
        servers = [command_lines.shuffler()] if self.layout.shuffled else []
        servers += [*command_lines.relays(), *command_lines.shard_boards()]
        processes.spawn(servers)
        for command_line in servers:
            self._await(processes, supervisor, self.folder.server_addresses(command_line.name))
        supervisor.begin()
        if self.hosts is not None:
            self.hosts.begin(self.layout, self.folder, self._keyring, self._signers)

    def _await(self, processes: Processes | WorkerProcesses, supervisor: Supervisor, addresses: Path) -> None:
        """Wait until one whom others connect to says where it is; whoever a signal ends meanwhile comes back."""
        while not addresses.exists():
            for exit in processes.exits(0.005):
                if not supervisor.takes_back(exit):
                    said = last_lines(self.folder.log(exit.name), 1)
                    text = said[0].removeprefix("parley: ") if said else f"the {exit.name} {exit.cause}"
                    raise BadInput(text) if exit.status == 2 else LocalProtocolError(text)
                self._name(exit)
            supervisor.act(time.monotonic())

    def _watch(
        self, processes: Processes | WorkerProcesses, supervisor: Supervisor, enough: Callable[[], bool]
    ) -> None:
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
            # What waits for being on record must not wait for us.
            if supervisor.strikes or supervisor.reports or time.monotonic() >= due:
                # Reading the record takes what the nodes could use, so it gets a small share of the time.
                due = time.monotonic() + LOOK_SHARE * self._show()
            if self._leave == math.inf:
                # What happened to nodes that run elsewhere goes on record, too.
                for line in self.hosts.step() if self.hosts is not None else ():
                    self.progress.note(line)
                    supervisor.reports["restart", line] = None
                number, recorded = self.follower.standing.round, self.follower.reports
                supervisor.step(time.monotonic(), round_number=number, running=processes.running, recorded=recorded)
        self._show()

    def _show(self) -> float:
        """Look at the record and show how far it is; the seconds that took."""
        began = time.monotonic()
        for standing in self.follower.look():
            self.progress.show(standing)
        return time.monotonic() - began

    def _name(self, exit: Exit) -> None:
        """Name a node that died with the end of its log."""
        lines = "".join(f"\n    {line}" for line in last_lines(self.folder.log(exit.name)))
        ended = f"; its log ends with:{lines}" if lines else ", and its log is empty"
        self.progress.note(f"{exit.name} (process {exit.pid}) {exit.cause}{ended}")

    def _lament(self, exit: Exit) -> None:
        """Without a node that died for good the run may be lost."""
        if self.follower.ended:
            return
        self._name(exit)
        self._hosted.pop(exit.name, None)
        if exit.name in self._shard_of:
            # Its users are lost with it; the quorum is that of the whole run.
            for node in self._shard_of[exit.name]:
                self._hosted.pop(node, None)
            if self.hosts is not None:
                self.hosts.drop(self._shard_of[exit.name])
        present, log, reason = sum(self._hosted.values()), self.folder.log(exit.name), ""
        needed = {BOARD_NAME, ANALYST_NAME, *self._middle} - set(self._shard_of)
        if exit.name in needed or present < self.layout.quorum * self.layout.users:
            said = last_lines(log, 1)
            if exit.status == UNFINISHED and said and said[0].startswith("parley: "):
                reason = f" ({said[0].removeprefix('parley: ')})"
            elif exit.status > 0 and shutil.disk_usage(self.folder.path).free == 0:
                # A node may not have been able to write down why it gave up.
                reason = " (the disk is full)"
            raise LocalProtocolError(
                f"{exit.name} {exit.cause} and the run cannot finish without it{reason}; see {log}"
            )
