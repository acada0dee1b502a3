"""User nodes on the workers of a running Dask cluster; the head board and the analyst stay with whoever launches.

A task carries all that its node needs: where the board is, keys to reach it, its slice of the inputs and the key of the
coins. That is an emulation's way of doing things, in which the launcher owns the data: it trusts the scheduler and the
workers with them, so a cluster that is not one's own should be reached with dask+tls://. Coins are addressed, so a
node that is placed again draws the same replies, and the board drops the repeated ones. It has no state from its
earlier life; instead the launcher tells it which setup and broadcasts are on record, and it answers no others.
"""

import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.coins import question_of, setup_digest, terms_of
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.roles.node_memory import Answered, Commit, Seated
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import topic_for
from parley.emulator.transport.zmq.ports import connect_node
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Setup
from parley.emulator.wire.security import Security
from parley.launch.cluster.keyring import Keyring
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import Signers, identities
from parley.launch.results.display.progress import Working
from parley.launch.results.folder import RunFolder
from parley.launch.results.sweeps import Batch, Outcome, trial
from parley.launch.settings import release
from parley.nodes.common import read_addresses, run_blocking
from parley.nodes.state.user_state import Identity, State
from parley.nodes.user import serve_user

if TYPE_CHECKING:
    from distributed import Future

_ADDRESS = re.compile(r"dask(?P<tls>\+tls)?://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):(?P<port>[0-9]{1,5})")
ANSWER_SECONDS = 10
MOST_LIVES = 10


@dataclass(frozen=True, kw_only=True, repr=False)
class Task:
    """One user node, to be carried to a worker. It has no representation as text, because it holds private inputs."""

    identity: Identity
    inputs: NDArray[np.unsignedinteger]
    board: BoardAddresses
    security: Security | None
    commits: tuple[Commit, ...] = ()


def host(task: Task) -> int:
    """On a worker: be the task's user node to the end of the run; its exit code."""
    from distributed import secede

    # A node waits more than it works: it must not keep its worker from hosting another.
    secede()
    with TemporaryDirectory(prefix="parley-") as folder:
        State.create(Path(folder), task.identity, durable=False)
        with State(Path(folder), durable=False) as state:
            for commit in task.commits:
                state.write(commit)
                state.memory.note(commit)
            return run_blocking(
                serve_user(
                    state,
                    task.inputs.astype(np.int64),
                    lambda name: connect_node(task.board, task.security, blocking=True, own=topic_for(name)),
                )
            )


class Workers(AbstractContextManager["Workers"]):
    """A Dask cluster as it is when asked. Use as a context: leaving it gives the connection back."""

    def __init__(self, address: str) -> None:
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise BadInput(f"--on {address!r} names no cluster; write dask://HOST:PORT of its scheduler")
        if find_spec("distributed") is None:
            raise BadInput("--on dask://... needs another package: pip install 'parley-ldp[cluster]'")
        self.address = f"{'tls' if match['tls'] else 'tcp'}://{match['host']}:{match['port']}"
        self.scheduler = match["host"].strip("[]")
        from distributed import Client

        try:
            with Working("looking for the cluster"):
                self.client = Client(self.address, timeout=ANSWER_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise BadInput(f"no Dask scheduler answers at {self.address}: {error}"[:300]) from error

    def __exit__(self, *_: object) -> None:
        self.client.close()

    @property
    def names(self) -> list[str]:
        """The addresses of the workers there are now, in an order that does not change."""
        try:
            return sorted(self.client.scheduler_info(n_workers=-1)["workers"])
        except (KeyError, OSError) as error:
            # A client that has lost its scheduler knows of nothing.
            raise LocalProtocolError(f"the Dask scheduler at {self.address} is gone") from error

    def check(self) -> None:
        """There are workers, and all of them have this very version of Parley."""
        if not self.names:
            raise BadInput(f"the Dask cluster at {self.address} has no workers; start some, then try again")
        for worker, found in self.client.run(release, on_error="return").items():
            if isinstance(found, BaseException):
                raise BadInput(f"worker {worker} cannot load Parley ({found}); install parley-ldp {release()} there")
            if found != release():
                raise BadInput(f"worker {worker} has Parley {found} and this is {release()}; install the same on both")

    def own_address(self) -> str:
        """The address of this machine on the way to the scheduler: where workers find the board."""
        with socket.socket(socket.AF_INET6 if ":" in self.scheduler else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((self.scheduler, 9))
            except OSError as error:
                raise BadInput(f"{self.scheduler} cannot be reached from here: {error.strerror}") from error
            return str(probe.getsockname()[0])


class Farm:
    """The user nodes of one run on the workers of a cluster: placed, looked after, and placed again."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._tasks: dict[str, Task] = {}
        self._placed: dict[str, tuple[str, Future[int]]] = {}
        self._lives: dict[str, int] = {}
        self._transcripts: dict[str, Path] = {}

    def begin(self, layout: Layout, folder: RunFolder, keyring: Keyring | None, signers: Signers) -> None:
        boards: dict[str, tuple[str, Path, Path]] = {}
        for node in layout.nodes:
            # Each speaks to the board, or to that of its shard.
            boards[node] = (BOARD_NAME, folder.addresses, folder.transcript)
            if (shard := layout.shard_of.get(node)) is not None:
                name = board_of(shard)
                boards[node] = (name, folder.server_addresses(name), folder.shard_transcript(shard))
        # The type must not follow from the inputs: tasks of equal size tell nothing.
        smallest = np.min_scalar_type(layout.protocol.inputs)
        for identity in identities(layout, folder, signers, keyring):
            server, addresses, self._transcripts[identity.node] = boards[identity.node]
            self._tasks[identity.node] = Task(
                identity=identity,
                inputs=layout.inputs[identity.first : identity.first + identity.users].astype(smallest),
                board=read_addresses(addresses),
                security=None if keyring is None else keyring.security(identity.node, server),
            )
        there = self.workers.names
        for place, name in enumerate(self._tasks):
            self._place(name, there[place * len(there) // len(self._tasks)])

    def step(self) -> list[str]:
        """Place nodes of lost workers again; a line for each. LocalProtocolError: a node failed by itself."""
        for name, (worker, future) in self._placed.items():
            if future.status == "error":
                raise LocalProtocolError(f"{name} on worker {worker} failed: {future.exception()}")
        there = self.workers.names
        lost = [name for name, (worker, future) in self._placed.items() if worker not in there and not future.done()]
        if lost and not there:
            return []
        return [self._replace(name, there) for name in lost]

    def drop(self, names: Iterable[str]) -> None:
        """Nobody waits for these nodes any more: their board was lost for good."""
        for name in names:
            if name in self._placed:
                self._placed.pop(name)[1].release()

    def end(self) -> None:
        """Let go of all nodes: they leave by themselves when the board says that the run is over."""
        for _, future in self._placed.values():
            future.release()
        self._placed.clear()

    def _replace(self, name: str, there: list[str]) -> str:
        worker, future = self._placed[name]
        if self._lives[name] >= MOST_LIVES:
            raise LocalProtocolError(f"{name} was placed {MOST_LIVES} times and every time its worker was lost")
        future.cancel()
        self._tasks[name] = replace(self._tasks[name], commits=self._on_record(name))
        hosting = [each for each, _ in self._placed.values()]
        self._place(name, min(there, key=lambda each: (hosting.count(each), each)))
        return f"{name}: worker {worker} was lost, the node is placed again on {self._placed[name][0]}"

    def _place(self, name: str, worker: str) -> None:
        self._lives[name] = self._lives.get(name, 0) + 1
        key = f"parley-{self._tasks[name].identity.consent.run}-{name}-{self._lives[name]}"
        options: dict[str, Any] = {"key": key, "workers": [worker], "allow_other_workers": False, "pure": False}
        self._placed[name] = worker, self.workers.client.submit(host, self._tasks[name], **options)

    def _on_record(self, name: str) -> tuple[Commit, ...]:
        """What the node's state would hold: the setup, and the broadcast of each round that was opened."""
        commits: list[Commit] = []
        terms = b""
        for record in TranscriptReader(self._transcripts[name]):
            message = record.message
            if isinstance(message, Setup):
                terms = terms_of(message)
                commits.append(Seated(run=message.run, digest=setup_digest(message), nonce=message.nonce))
            elif isinstance(message, Announce):
                question = question_of(terms, message)
                commits.append(Answered(round=message.round, question=question, announce=encode(message)))
        return tuple(commits)


def run_on(address: str, work: list[Batch]) -> Iterator[Outcome]:
    """The trials of a sweep on a cluster, as they come; a batch whose worker is lost runs again elsewhere."""
    from distributed import as_completed

    with Workers(address) as workers:
        workers.check()
        futures: list[Any] = workers.client.map(trial, work, pure=False)
        for future in as_completed(futures, loop=workers.client.loop):
            yield future.result()
            future.release()
