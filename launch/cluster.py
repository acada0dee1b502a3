"""A cluster on this machine: a board, an analyst and user nodes as processes, watched to their end."""

import errno
import math
import resource
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from emulator.board import Terms
from emulator.codec import pack
from emulator.errors import BadInput, LocalProtocolError, ParleyError
from emulator.protocol import Inputs, Protocol
from emulator.witness import Witness
from launch.folder import RunFolder
from launch.follow import Follower, close_broken
from launch.processes import Exit, Order, Processes, last_lines
from launch.progress import Progress

BOARD, ANALYST = "board", "analyst"
LOOK_SECONDS = 0.05
LOOK_SHARE = 20
LEAVE_SECONDS = 3.0
REHEARSE_FROM = 16
# A crowd of users must not keep board and analyst, whom all of them wait for, from the processor.
CROWD = 64
CROWD_NICENESS = 10
# The board holds two connections a node and a few of its own; the nodes two and what an event loop needs.
DESCRIPTORS_A_NODE = 4
SPARE_DESCRIPTORS = 64


@dataclass(frozen=True, kw_only=True, repr=False)
class Layout:
    """Who takes part in a run and under which terms; checked before anything is written or started."""

    protocol: Protocol
    inputs: Inputs
    key: bytes
    processes: int
    deadline: float = 600.0
    quorum: float = 1.0
    join_deadline: float = 60.0
    port: int | None = None

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise BadInput(f"--processes {self.processes} starts nobody; give a number from 1 on")
        if self.processes > self.users:
            raise BadInput(f"{self.processes} processes for {self.users} users: some would host nobody; give fewer")
        if not (math.isfinite(self.deadline) and self.deadline > 0):
            raise BadInput(f"--deadline {self.deadline} cannot be kept; give a positive number of seconds")
        self.terms("check")
        self._check_descriptors()
        if self.port is not None:
            check_ports(self.port)

    @property
    def users(self) -> int:
        return len(self.inputs)

    def terms(self, run: str) -> Terms:
        """What the board is told."""
        return Terms(
            run=run,
            users=self.users,
            nodes=self.processes,
            deadline=self.deadline,
            quorum=self.quorum,
            join_deadline=self.join_deadline,
        )

    def cohorts(self) -> Iterator[tuple[str, int, int]]:
        """Name, first user and number of users of each user node: parts as equal as can be."""
        for number, part in enumerate(np.array_split(np.arange(self.users), self.processes)):
            yield f"node-{number}", int(part[0]), len(part)

    def _check_descriptors(self) -> None:
        needed = SPARE_DESCRIPTORS + DESCRIPTORS_A_NODE * self.processes
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and needed > hard:
            most = (hard - SPARE_DESCRIPTORS) // DESCRIPTORS_A_NODE
            raise BadInput(
                f"{self.processes} processes need {needed} open files and this machine allows {hard}; "
                f"give at most {most} processes or raise `ulimit -Hn`"
            )


def check_ports(port: int) -> None:
    """Post, feed and desk get three ports in a row, and all three must be free."""
    if not 1 <= port <= 65533:
        raise BadInput(f"--port {port} cannot be used; give a number from 1 to 65533")
    for number in range(port, port + 3):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", number))
            except OSError as error:
                why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be bound ({error.strerror})"
                raise BadInput(f"port {number} {why}; choose another --port or leave it out") from error


class Cluster:
    """One run from its folder to its last process."""

    def __init__(self, layout: Layout, folder: RunFolder, progress: Progress) -> None:
        self.layout = layout
        self.folder = folder
        self.progress = progress
        self.follower = Follower(
            folder.transcript,
            nodes=layout.processes,
            users=layout.users,
            declared=layout.protocol.claim.rounds,
        )
        self._hosted = {name: users for name, _, users in layout.cohorts()}

    def run(self) -> None:
        """Make the folder, start everybody, watch to the end. Raises if the run did not complete."""
        self.folder.create()
        try:
            self._prepare()
            with Processes() as processes:
                self._start(processes)
                self._watch(processes)
        except BadInput:
            # Only a board that cannot be started gets here: nothing has happened yet, so leave nothing.
            shutil.rmtree(self.folder.path)
            raise
        except BaseException as error:
            # Everybody is gone by now, so the record is ours to end.
            close_broken(self.folder.transcript, self.folder.run, error)
            raise

    def _prepare(self) -> None:
        protocol = self.layout.protocol
        self.folder.plan.write_bytes(pack({"protocol": protocol.name, "parameters": protocol.parameters()}))
        Witness(run=self.folder.run, key=self.layout.key, inputs=self.layout.inputs).save(self.folder.witness)

    def _start(self, processes: Processes) -> None:
        processes.prepare(self.folder.plan, rehearse=self.layout.processes >= REHEARSE_FROM)
        processes.spawn([self._board()])
        while not self.folder.addresses.exists():
            for exit in processes.exits(0.005):
                raise self._stillborn(exit)
        processes.spawn([self._analyst(), *self._users()])

    def _watch(self, processes: Processes) -> None:
        """Until the board has ended; then give the others a moment to hear so and leave."""
        leave: float | None = None
        due = 0.0
        while processes.running and (leave is None or time.monotonic() < leave):
            for exit in processes.exits(LOOK_SECONDS):
                if exit.name == BOARD:
                    leave = time.monotonic() + LEAVE_SECONDS
                if exit.status != 0:
                    self._lament(exit)
            if time.monotonic() >= due:
                # Reading the record takes what the nodes could use, so it gets a small share of the time.
                due = time.monotonic() + LOOK_SHARE * self._show()
        self._show()
        self.follower.check_completed()

    def _show(self) -> float:
        """Look at the record and show how far it is; the seconds that took."""
        began = time.monotonic()
        for standing in self.follower.look():
            self.progress.show(standing)
        return time.monotonic() - began

    def _stillborn(self, exit: Exit) -> ParleyError:
        said = last_lines(self.folder.log(exit.name), 1)
        text = said[0].removeprefix("parley: ") if said else f"the board {exit.cause}"
        return BadInput(text) if exit.status == 2 else LocalProtocolError(text)

    def _lament(self, exit: Exit) -> None:
        """Name a node that died with the end of its log; without it the run may be lost."""
        self._show()
        if self.follower.ended:
            return
        lines = "".join(f"\n    {line}" for line in last_lines(self.folder.log(exit.name)))
        self.progress.note(f"{exit.name} (process {exit.pid}) {exit.cause}; its log ends with:{lines}")
        self._hosted.pop(exit.name, None)
        present = sum(self._hosted.values())
        if exit.name in (BOARD, ANALYST) or present < self.layout.quorum * self.layout.users:
            raise LocalProtocolError(
                f"{exit.name} {exit.cause} and the run cannot finish without it; see {self.folder.log(exit.name)}"
            )

    def _board(self) -> Order:
        terms, folder = self.layout.terms(self.folder.run), self.folder
        arguments = {
            "--run": terms.run,
            "--users": terms.users,
            "--nodes": terms.nodes,
            "--transcript": folder.transcript,
            "--addresses": folder.addresses,
            "--deadline": terms.deadline,
            "--quorum": terms.quorum,
            "--join-deadline": terms.join_deadline,
        }
        if self.layout.port is not None:
            for offset, channel in enumerate(("--post", "--feed", "--desk")):
                arguments[channel] = f"tcp://127.0.0.1:{self.layout.port + offset}"
        return self._order(BOARD, BOARD, arguments)

    def _analyst(self) -> Order:
        folder = self.folder
        arguments = {"--run": folder.run, "--addresses": folder.addresses, "--plan": folder.plan}
        return self._order(ANALYST, ANALYST, arguments)

    def _users(self) -> Iterator[Order]:
        for name, first, users in self.layout.cohorts():
            arguments = {
                "--addresses": self.folder.addresses,
                "--node": name,
                "--first": first,
                "--users": users,
                "--witness": self.folder.witness,
                "--journal": self.folder.journal(name),
                "--cap": self.layout.protocol.claim.epsilon,
            }
            yield self._order(name, "user", arguments)

    def _order(self, name: str, node: str, arguments: dict[str, object]) -> Order:
        words = tuple(str(word) for pair in arguments.items() for word in pair)
        niceness = CROWD_NICENESS if node == "user" and self.layout.processes >= CROWD else 0
        return Order(name=name, node=node, arguments=words, log=self.folder.log(name), niceness=niceness)
