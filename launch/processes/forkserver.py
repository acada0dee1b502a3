"""A warm process that forks nodes: everything is imported once, and a node costs a fork and the pages it writes.

`python -m parley.launch.processes.forkserver FD PARENT` is a fresh interpreter without threads and without a zmq
context, so forking it is safe. It takes requests from the socket FD and reports what becomes of its children. Each
message is JSON behind its length. When the socket closes, or the fork server dies in any way, every child dies with it.
"""

import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from parley.emulator.wire.codec import learn_fields
from parley.launch.processes.argument_cache import ArgumentCache
from parley.launch.processes.system import CRASHED, die_with_parent

LENGTH = struct.Struct("<I")
PIECE = 2**20
NODES = ("board", "analyst", "user", "relay", "shuffler")


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


class ForkServer:
    """Forks and watches nodes as the channel asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.children: dict[int, str] = {}
        self._forked: list[int] = []
        self._witness: Path | None = None
        self._arguments = ArgumentCache()
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
            requests = [(request, self._read(request)) for request in self.channel.receive()]
            if self._witness is not None and any(request.get("node") == "user" for request, _ in requests):
                self._share_witness(self._witness)
                self._witness = None
            for request, parameters in requests:
                self._handle(request, parameters)
            # Reported when all are forked, for the same reason.
            for pid in self._forked:
                self.channel.send({"event": "spawned", "name": self.children[pid], "pid": pid})
            self._forked.clear()
        self.end()

    def end(self) -> None:
        """Kill every child and wait for it."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)
        self.children.clear()

    def _handle(self, request: dict[str, Any], parameters: dict[str, Any] | None) -> None:
        if request["request"] == "spawn":
            self._spawn(request, parameters)
        elif request["request"] == "prepare":
            self._prepare(request["plan"], request["crowd"])
        else:
            self._signal(request["names"], request["signal"])

    def _prepare(self, plan: str, crowd: str | None) -> None:
        """Build the run's protocol once, so that every node has from the start what its parts remember.

        With `crowd`, the witness of many users, a user node also goes through all rounds, so that nothing is imported
        or computed for the first time in each of a thousand processes.
        """
        protocol = import_module("parley.nodes.analyst").read_plan(Path(plan)).protocol
        if crowd is not None:
            import_module("parley.launch.processes.warmup").warm_up(protocol)
            self._witness = Path(crowd)
        freeze()

    def _share_witness(self, witness: Path) -> None:
        """Read the inputs just before the first user node is forked: all of them share what was read."""
        import_module("parley.nodes.user").read_witness(witness)
        freeze()

    def _read(self, request: dict[str, Any]) -> dict[str, Any] | None:
        return self._arguments.read(request["node"], request["arguments"]) if request["request"] == "spawn" else None

    def _signal(self, names: list[str], number: int) -> None:
        wanted = set(names)
        for pid, name in self.children.items():
            if name in wanted:
                os.kill(pid, number)

    def _spawn(self, request: dict[str, Any], parameters: dict[str, Any] | None) -> None:
        parent, name = os.getpid(), request["name"]
        try:
            pid = os.fork()
        except OSError as error:
            self.channel.send({"event": "refused", "name": name, "reason": str(error)})
            return
        if pid == 0:
            self._become(parent, request, parameters)
        self.children[pid] = name
        self._forked.append(pid)

    def _become(self, parent: int, request: dict[str, Any], parameters: dict[str, Any] | None) -> NoReturn:
        """In the child: let go of all that is the fork server's, run the node, and never return."""
        code = CRASHED
        try:
            die_with_parent(parent)
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
            # The last thing this process does is to write down why; the fork server reports the exit code.
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


def freeze() -> None:
    """Keep the collector off the pages that exist now, so that children go on sharing them."""
    gc.collect()
    gc.freeze()


def warm() -> None:
    """Import what a node needs."""
    for node in NODES:
        import_module(f"parley.nodes.{node}")
    import_module("parley.nodes.common").start_logging()
    learn_fields()
    freeze()


def main(arguments: list[str]) -> None:
    """Serve the channel at the given descriptor, for the parent with the given process id."""
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    # The launcher decides what an interrupt means; nodes must not be torn away under it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm()
    ForkServer(Channel(socket.socket(fileno=descriptor))).serve()
    # The launcher waits for our end, and nothing is left to tidy up.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
