"""A warm process that forks nodes: everything is imported once, and a node costs a fork and the pages it writes.

`python -m parley.launch.processes.forkserver FD PARENT` is a fresh interpreter without threads and without a zmq
context, so forking it is safe. It takes requests from the socket FD and reports what becomes of its children. Each
message is a line of JSON. When the socket closes, or the fork server dies in any way, every child dies with it.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from parley.emulator.errors import ParleyError
from parley.emulator.wire.codec import learn_fields
from parley.launch.processes.system import CRASHED, die_with_parent, keep_freed_memory

PIECE = 2**20
NODES = ("board", "analyst", "user", "relay", "shuffler")


class Channel:
    """JSON messages, one a line, over a stream socket, without blocking the reader or the writer."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.closed = False
        self._read = bytearray()
        self.unsent = bytearray()
        stream.setblocking(False)

    def send(self, message: dict[str, Any]) -> None:
        """Queue a message, and pass on what the socket takes now."""
        self.unsent += json.dumps(message).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Pass on what the socket takes; the rest waits."""
        while self.unsent and not self.closed:
            try:
                del self.unsent[: self.stream.send(self.unsent[:PIECE])]
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
        *whole, self._read = self._read.split(b"\n")
        yield from map(json.loads, whole)


class ArgumentCache:
    """Reads the command lines of nodes, so that a thousand nodes need not.

    It remembers the last one: of the next one, which differs in a few values, it reads only those.
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._context: click.Context | None = None

    def read(self, node: str, arguments: list[str]) -> dict[str, Any] | None:
        """What the node's function is called with; None if that fails, so that the node itself says why, in its log."""
        words = dict(zip(arguments[::2], arguments[1::2], strict=False))
        try:
            context = self._context
            # The same options, each with its value, in the same order: those with other values than before are read.
            alike = 2 * len(words) == len(arguments) and list(words) == list(self._words)
            if context is not None and context.info_name == node and alike:
                options = {name: option for option in context.command.params for name in option.opts}
                given = {options[word]: value for word, value in words.items() if value != self._words[word]}
                others = {str(option.name): option.process_value(context, value) for option, value in given.items()}
                return with_addresses(node, {**context.params, **others})
            command: click.Command = import_module(f"parley.nodes.{node}").main
            self._words, self._context = words, command.make_context(node, list(arguments))
            return with_addresses(node, self._context.params)
        except (ImportError, KeyError, click.ClickException, click.exceptions.Exit):
            return None


def with_addresses(node: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The same parameters, with the board's addresses read: forked nodes find them in memory."""
    if node == "user" and parameters["addresses"] is not None:
        with suppress(ParleyError):
            import_module("parley.nodes.common").known_addresses(parameters["addresses"])
    return parameters


class ForkServer:
    """Forks and watches nodes as the channel asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.children: dict[int, str] = {}
        self._witness: Path | None = None
        self._arguments = ArgumentCache()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        for each in (self._woken, self._wake):
            each.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
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
            while self.children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                name, status = self.children.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])
                self.channel.send({"event": "exit", "name": name, "pid": ended[0], "status": status})
            self.channel.flush()
            # All arguments are read before the first fork: what is written between two forks is copied at each.
            requests = list(self.channel.receive())
            parameters = [self._arguments.read(each["node"], each["arguments"]) for each in requests if "node" in each]
            if self._witness is not None and any(request.get("node") == "user" for request in requests):
                # Just before the first user node is forked: all of them share the inputs that were read.
                import_module("parley.nodes.user").read_witness(self._witness)
                freeze()
                self._witness = None
            before = set(self.children)
            for request in requests:
                if request["request"] == "spawn":
                    self._spawn(request, parameters.pop(0))
                elif request["request"] == "prepare":
                    self._prepare(request["plan"], request["crowd"])
                else:
                    for pid in [pid for pid, name in self.children.items() if name in request["names"]]:
                        os.kill(pid, request["signal"])
            # Reported when all are forked, for the same reason.
            for pid in self.children.keys() - before:
                self.channel.send({"event": "spawned", "name": self.children[pid], "pid": pid})
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)

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
            # The log is made private: it may quote what its user holds.
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            for source, target in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(source, target)
            os.close(nothing)
            os.close(log)
            os.nice(request["niceness"])
            if request["node"] != "user":
                # Inputs are for user nodes: nobody else shall have them even in memory.
                import_module("parley.nodes.user").read_witness.cache_clear()
            command: click.Command = import_module(f"parley.nodes.{request['node']}").main
            try:
                if parameters is None:
                    command.main(args=request["arguments"], prog_name=f"parley node {request['node']}")
                else:
                    # Straight to the function: everything else the library does at a call is for commands in commands.
                    assert command.callback is not None
                    command.callback(**parameters)
                code = 0
            except SystemExit as ending:
                code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
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


def freeze() -> None:
    """Keep the collector off the pages that exist now, so that children go on sharing them."""
    gc.collect()
    gc.freeze()


def warm() -> None:
    keep_freed_memory()
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
