"""A warm process that forks nodes: everything is imported once, a node costs a fork and the pages it writes.

`python -m launch.nursery FD` is a fresh interpreter with no thread and no zmq context, so forking it is safe. It
takes requests from the socket FD and reports what becomes of its children, each message as JSON behind its length.
When the socket closes, or the nursery dies in any way, every child dies with it.
"""

import ctypes
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
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np

from emulator.codec import decode, encode, learn_fields
from emulator.coins import KEY_BYTES
from emulator.errors import ParleyError
from emulator.messages import BROADCASTS, Message
from emulator.protocol import Protocol
from emulator.roles import CohortRole
from emulator.simulate import conversation

LENGTH = struct.Struct("<I")
PIECE = 2**20
NODES = ("board", "analyst", "user", "relay", "shuffler")
PR_SET_PDEATHSIG = 1
CRASHED = 70


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


@cache
def library() -> ctypes.CDLL:
    """The C library, opened before the first fork."""
    return ctypes.CDLL(None)


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; if it has ended already, end now."""
    # A kernel without prctl has no such promise; closing the channel still ends the nursery and its children.
    if sys.platform == "linux":
        library().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(CRASHED)


class Nursery:
    """Forks, watches and buries nodes as the channel asks."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.children: dict[int, str] = {}
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
            for request, context in [(request, parse(request)) for request in self.channel.receive()]:
                self._obey(request, context)
        self.end()

    def end(self) -> None:
        """Kill and bury every child."""
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        for pid in self.children:
            os.waitpid(pid, 0)
        self.children.clear()

    def _obey(self, request: dict[str, Any], context: click.Context | None) -> None:
        if request["request"] == "spawn":
            self._spawn(request, context)
        elif request["request"] == "prepare":
            prepare(request["plan"], request["witness"], request["rehearse"])
        else:
            self._signal(request["names"], request["signal"])

    def _signal(self, names: list[str], number: int) -> None:
        wanted = set(names)
        for pid, name in self.children.items():
            if name in wanted:
                os.kill(pid, number)

    def _spawn(self, request: dict[str, Any], context: click.Context | None) -> None:
        nursery, name = os.getpid(), request["name"]
        try:
            pid = os.fork()
        except OSError as error:
            self.channel.send({"event": "refused", "name": name, "reason": str(error)})
            return
        if pid == 0:
            self._become(nursery, request, context)
        self.children[pid] = name
        self.channel.send({"event": "spawned", "name": name, "pid": pid})

    def _become(self, nursery: int, request: dict[str, Any], context: click.Context | None) -> None:
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
                import_module("nodes.user").read_witness.cache_clear()
            code = run_node(request["node"], request["arguments"], context)
        finally:
            # The last thing this process does is to write down why; the nursery reports the exit code.
            if sys.exception() is not None:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
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


def parse(request: dict[str, Any]) -> click.Context | None:
    """The arguments of a spawn, read in advance; None if that fails, so that the node itself says why, in its log."""
    if request["request"] != "spawn":
        return None
    try:
        command: click.Command = import_module(f"nodes.{request['node']}").main
        context = command.make_context(f"parley node {request['node']}", list(request["arguments"]))
    except (ImportError, click.ClickException, click.exceptions.Exit):
        return None
    if request["node"] == "user" and context.params["addresses"] is not None:
        with suppress(ParleyError):
            import_module("nodes.common").known_addresses(context.params["addresses"])
    return context


def run_node(node: str, arguments: list[str], context: click.Context | None) -> int:
    """The node's command to its end; its exit code."""
    command: click.Command = import_module(f"nodes.{node}").main
    try:
        if context is None:
            command.main(args=arguments, prog_name=f"parley node {node}")
        else:
            # Straight to the function: everything else the library does at a call is for commands in commands.
            assert command.callback is not None
            command.callback(**context.params)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return 0


def warm() -> None:
    """Import what a node needs."""
    for node in NODES:
        import_module(f"nodes.{node}")
    import_module("nodes.common").start_logging()
    learn_fields()
    settle()


def prepare(plan: str, witness: str | None, rehearse: bool) -> None:
    """Build the run's protocol once: what its parts remember of their parameters, every node then knows from birth.

    With `rehearse`, a user that does not exist goes through all rounds, so that nothing is imported or worked out for
    the first time a thousand times over.
    """
    protocol = import_module("nodes.analyst").read_plan(Path(plan))
    if rehearse:
        with suppress(ParleyError):
            answer(protocol, overhear(protocol))
    if witness is not None:
        import_module("nodes.user").read_witness(Path(witness))
    settle()


def overhear(protocol: Protocol) -> list[bytes]:
    """The broadcasts of a run in memory, frame by frame. It takes place in a process of its own, so that what only an
    analyst needs is not carried, and copied, by every node."""
    nursery, (reading, writing) = os.getpid(), os.pipe()
    if (child := os.fork()) == 0:
        try:
            die_with_parent(nursery)
            os.close(reading)
            with open(writing, "wb") as out:
                # Two users may be too few for an estimate; what matters is what they were asked.
                for _, message in conversation(protocol, np.zeros(2, dtype=np.int64), bytes(KEY_BYTES), nodes=2):
                    if isinstance(message, BROADCASTS):
                        frame = encode(message)
                        out.write(LENGTH.pack(len(frame)) + frame)
        finally:
            os._exit(0)
    os.close(writing)
    frames = []
    with open(reading, "rb") as heard:
        while head := heard.read(LENGTH.size):
            frames.append(heard.read(LENGTH.unpack(head)[0]))
    os.waitpid(child, 0)
    return frames


def answer(protocol: Protocol, frames: list[bytes]) -> None:
    """Let a user node hear these broadcasts and make, but not send, its answers."""
    claim = protocol.claim
    role = CohortRole(
        node="nobody",
        first=0,
        inputs=np.zeros(1, dtype=np.int64),
        key=bytes(KEY_BYTES),
        cap=claim.epsilon,
        build=import_module("protocols.registry").build,
        trusts=claim.trusts,
        delta_cap=claim.delta,
    )
    for frame in frames:
        for said in role.hear(decode(frame)):
            if isinstance(said, Message):
                encode(said)


def settle() -> None:
    """Keep the collector off the pages that exist now, so that children go on sharing them."""
    gc.collect()
    gc.freeze()


def main(arguments: list[str]) -> None:
    """Serve the channel at the given descriptor, for the parent with the given process id."""
    descriptor, parent = int(arguments[0]), int(arguments[1])
    die_with_parent(parent)
    # The launcher decides what an interrupt means; nodes must not be torn away under it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm()
    Nursery(Channel(socket.socket(fileno=descriptor))).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
