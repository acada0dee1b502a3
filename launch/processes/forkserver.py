"""A warm process that forks nodes: everything is imported once, a node costs a fork and the pages it writes.

`python -m parley.launch.processes.forkserver FD` is a fresh interpreter with no thread and no zmq context, so forking
it is safe. It takes requests from the socket FD and reports what becomes of its children, each message as JSON behind
its length. When the socket closes, or the nursery dies in any way, every child dies with it.
"""

import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from parley.emulator.wire.codec import learn_fields
from parley.launch.processes.argument_cache import ArgumentCache
from parley.launch.processes.sharing import settle, share
from parley.launch.processes.system import CRASHED, die_with_parent
from parley.nodes.memory import keep_one_heap

LENGTH = struct.Struct("<I")
PIECE = 2**20
NODES = ("board", "analyst", "user", "relay", "shuffler")
# Nodes import these when they are asked to; a thousand forks must not do so one by one.
LATER = ("parley.emulator.record.witness", "parley.emulator.transport.faults", "parley.nodes.state.wallet")


class Channel:
    """JSON messages behind their length, over a stream socket, without blocking the reader or the writer."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.closed = False
        self._read = bytearray()
        self._unsent = bytearray()
        stream.setblocking(False)

    @property
    def unsent(self) -> bool:
        return bool(self._unsent)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message, and pass on what the socket takes now."""
        body = json.dumps(message).encode()
        self._unsent += LENGTH.pack(len(body)) + body
        self.flush()

    def flush(self) -> None:
        """Pass on what the socket takes; the rest waits."""
        while self._unsent and not self.closed:
            try:
                del self._unsent[: self.stream.send(self._unsent[:PIECE])]
            except BlockingIOError:
                return
            except (BrokenPipeError, ConnectionResetError):
                self.closed = True

    def receive(self) -> Iterator[dict[str, Any]]:
        """The whole messages that have arrived; `closed` when the other side is gone."""
        while not self.closed:
            try:
                piece = self.stream.recv(PIECE)
            except BlockingIOError:
                break
            except ConnectionResetError:
                piece = b""
            self._read += piece
            self.closed = not piece
        while len(self._read) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._read)[0]
            if len(self._read) < end:
                break
            message = json.loads(self._read[LENGTH.size : end])
            del self._read[:end]
            yield message


class Nursery:
    """Forks, watches and buries nodes as the channel asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.children: dict[int, str] = {}
        self._newborn: list[int] = []
        self._expected: list[Path] = []
        self._reader = ArgumentCache()
        self._selector = selectors.DefaultSelector()
        self._woken, wake = socket.socketpair()
        self._woken.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(channel.stream, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the channel closes."""
        self.channel.send({"event": "warm", "pid": os.getpid()})
        while not self.channel.closed:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.channel.unsent else 0)
            self._selector.modify(self.channel.stream, wanted)
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(4096)
            self._reap()
            self.channel.flush()
            # All arguments are read before the first fork: what is written between two forks is copied at each.
            orders = [(request, self._read(request)) for request in self.channel.receive()]
            if self._expected and any(request.get("node") == "user" for request, _ in orders):
                self._welcome(self._expected.pop())
            for request, parameters in orders:
                self._obey(request, parameters)
            # Reported when all are forked, for the same reason.
            for pid in self._newborn:
                self.channel.send({"event": "spawned", "name": self.children[pid], "pid": pid})
            self._newborn.clear()
        self.end()

    def end(self) -> None:
        """Kill and bury every child."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)
        self.children.clear()

    def _obey(self, request: dict[str, Any], parameters: dict[str, Any] | None) -> None:
        if request["request"] == "spawn":
            self._spawn(request, parameters)
        elif request["request"] == "prepare":
            self._prepare(request["plan"], request["crowd"])
        else:
            self._signal(request["names"], request["signal"])

    def _prepare(self, plan: str, crowd: str | None) -> None:
        """Build the run's protocol once: what its parts remember of their parameters, every node then knows from birth.

        With `crowd`, the witness of many users, a user that does not exist goes through all rounds, so that nothing is
        imported or worked out for the first time a thousand times over.
        """
        protocol = import_module("parley.nodes.analyst").read_plan(Path(plan)).protocol
        if crowd is not None:
            keep_one_heap()
            import_module("parley.launch.processes.warmup").warm_up(protocol, self._birth)
            self._expected.append(Path(crowd))
        settle()

    def _welcome(self, witness: Path) -> None:
        """Before the first of a crowd is forked: what there is now, all of them share."""
        share()
        # After that, for what is shared stays for good: the inputs must be forgotten by who has no business with them.
        import_module("parley.nodes.user").read_witness(witness)
        settle()

    def _read(self, request: dict[str, Any]) -> dict[str, Any] | None:
        return self._reader.read(request["node"], request["arguments"]) if request["request"] == "spawn" else None

    def _signal(self, names: list[str], number: int) -> None:
        wanted = set(names)
        for pid, name in self.children.items():
            if name in wanted:
                os.kill(pid, number)

    def _spawn(self, request: dict[str, Any], parameters: dict[str, Any] | None) -> None:
        nursery, name = os.getpid(), request["name"]
        try:
            pid = os.fork()
        except OSError as error:
            self.channel.send({"event": "refused", "name": name, "reason": str(error)})
            return
        if pid == 0:
            self._become(nursery, request, parameters)
        self.children[pid] = name
        self._newborn.append(pid)

    def _birth(self, request: dict[str, Any]) -> Callable[[], NoReturn]:
        return partial(self._become, os.getpid(), request, self._read(request))

    def _become(self, nursery: int, request: dict[str, Any], parameters: dict[str, Any] | None) -> NoReturn:
        """In the child: let go of all that is the nursery's, run the node, and never return."""
        code = CRASHED
        try:
            die_with_parent(nursery)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            self._selector.close()
            for each in (self.channel.stream, self._woken, self._wake):
                each.close()
            redirect(request["log"])
            os.nice(request["niceness"])
            if request["node"] != "user":
                # Inputs are for user nodes: nobody else shall have them even in memory.
                import_module("parley.nodes.user").read_witness.cache_clear()
            code = run_node(request["node"], request["arguments"], parameters)
        finally:
            # The last thing this process does is to write down why; the nursery reports the exit code.
            try:
                if sys.exception() is not None:
                    traceback.print_exc()
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                # Even if a full disk takes no last words: this process must not go on as its parent.
                os._exit(code)

    def _reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            name = self.children.pop(pid)
            self.channel.send({"event": "exit", "name": name, "pid": pid, "status": os.waitstatus_to_exitcode(status)})


def redirect(log: str) -> None:
    """Standard output and error to the log, nothing to read from."""
    # Made private: a node's log may quote what its user holds.
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(nothing)
    os.close(descriptor)


def run_node(node: str, arguments: list[str], parameters: dict[str, Any] | None) -> int:
    """The node's command to its end; its exit code."""
    command: click.Command = import_module(f"parley.nodes.{node}").main
    try:
        if parameters is None:
            command.main(args=arguments, prog_name=f"parley node {node}")
        else:
            # Straight to the function: everything else the library does at a call is for commands in commands.
            assert command.callback is not None
            command.callback(**parameters)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return 0


def warm() -> None:
    """Import what a node needs, and what it would load later."""
    for module in (*(f"parley.nodes.{node}" for node in NODES), *LATER):
        import_module(module)
    import_module("parley.nodes.common").start_logging()
    learn_fields()
    settle()


def main(arguments: list[str]) -> None:
    """Serve the channel at the given descriptor, for the parent with the given process id."""
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    # The launcher decides what an interrupt means; nodes must not be torn away under it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm()
    Nursery(Channel(socket.socket(fileno=descriptor))).serve()
    # What was made to stay for good cannot be taken apart.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
