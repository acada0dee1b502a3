"""Where peers may only listen: the account exact, the thread with real connections and nothing of libzmq."""

import errno
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from parley.emulator.transport.doors import Door, Doorkeeper, Listener
from parley.emulator.transport.unread import MOST_FROM_LISTENER, SECOND_OVERHEAD, accepted_at
from tests.launch.processes.test_forkserver import until


def test_a_hello_and_subscriptions_are_allowed_and_no_more() -> None:
    assert not Listener(0.0).exceeds(MOST_FROM_LISTENER, 0.0)
    assert Listener(0.0).exceeds(MOST_FROM_LISTENER + 2, 0.0)


def test_a_silent_year_of_heartbeats_earns_no_credit() -> None:
    listener, received, now = Listener(0.0), 0, 0.0
    for _ in range(1000):
        now += 8 * 3600
        received += 9 * 8 * 3600 * SECOND_OVERHEAD // 10
        assert not listener.exceeds(received, now)
    assert not listener.exceeds(received + MOST_FROM_LISTENER, now)
    assert listener.exceeds(received + MOST_FROM_LISTENER + 10, now)


class Entrance:
    """A listening socket whose connections nobody reads, and the thread that watches them."""

    def __init__(self) -> None:
        self.cuts = 0
        self.door = Door(self._count)
        self.keeper = Doorkeeper()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.door.port = self.listener.getsockname()[1]
        self.accepted: list[socket.socket] = []
        self._coming, self._announce = os.pipe()
        os.set_blocking(self._coming, False)
        self.keeper.keep(self.door, self._coming, self._hear)
        self.keeper.start()

    def _count(self) -> None:
        self.cuts += 1

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._coming, 1)
        for each in self.accepted:
            if each.fileno() not in self.door.listeners:
                self.keeper.come(self.door, each.fileno())

    def connect(self, *, announced: bool = True) -> socket.socket:
        peer = socket.create_connection(self.listener.getsockname())
        self.accepted.append(self.listener.accept()[0])
        if announced:
            self.announce()
        return peer

    def announce(self) -> None:
        os.write(self._announce, b"!")

    def close(self) -> None:
        self.keeper.stop()
        for each in (self.listener, *self.accepted):
            each.close()
        os.close(self._coming)
        os.close(self._announce)


@pytest.fixture
def entrance() -> Iterator[Entrance]:
    found = Entrance()
    yield found
    found.close()


def flood(peer: socket.socket, reader: socket.socket) -> bool:
    """Send a gibibyte, and read it at the other end as libzmq would; whether it was cut."""
    block = bytes(2**14)
    reader.setblocking(False)
    try:
        for _ in range(2**16):
            peer.sendall(block)
            with suppress(BlockingIOError):
                while reader.recv(2**16):
                    pass
    except ConnectionError:
        return True
    return False


def use_all_descriptors(stack: ExitStack) -> int:
    """The error that says that none is free."""
    try:
        while True:
            stack.enter_context(socket.socket())
    except OSError as error:
        return error.errno or 0


def test_who_sends_too_much_is_cut_while_the_others_stay(entrance: Entrance) -> None:
    with entrance.connect() as honest, entrance.connect() as hostile:
        assert flood(hostile, entrance.accepted[-1])
        until(lambda: entrance.cuts == 1)
        honest.sendall(bytes(MOST_FROM_LISTENER // 2))
        entrance.accepted[0].sendall(b"still there")
        assert honest.recv(100) == b"still there"
    assert entrance.cuts == 1


def test_what_was_sent_before_anybody_looked_counts(entrance: Entrance) -> None:
    with entrance.connect(announced=False) as hostile:
        hostile.sendall(bytes(2 * MOST_FROM_LISTENER))
        entrance.announce()
        until(lambda: entrance.cuts == 1)


def test_connections_nobody_announces_are_searched_for(entrance: Entrance) -> None:
    entrance.keeper.search(entrance.door)
    with entrance.connect(announced=False) as hostile:
        assert flood(hostile, entrance.accepted[-1])
        until(lambda: entrance.cuts == 1)


def test_connections_are_found_without_a_free_descriptor() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.enter_context(socket.create_connection(listener.getsockname()))
        accepted = stack.enter_context(listener.accept()[0])
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (accepted.fileno() + 1, before[1]))
        assert use_all_descriptors(stack) == errno.EMFILE
        assert accepted_at(listener.getsockname()[1]) == {listener.fileno(), accepted.fileno()}
