"""Sockets whose peers may only listen, watched from a thread of their own.

libzmq notes subscriptions inside whatever call this process makes next on the socket, and that call returns when it
has noted all there are. A peer that subscribes faster than libzmq takes notes holds the call, and the event loop with
it, for as long as it likes. So nobody in the loop can cut it off. This thread can, as long as such calls let other
threads run (see `zmq/channel.py`). It sleeps until bytes come, and looks only at the connections they came over.
"""

import os
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from parley.emulator.transport import unread

# Between two rounds of looks. A flood brings some hundred kilobytes in this time; a crowd that says hello costs little.
REST = 0.0005


class Listener:
    """What one connection has sent where it may only listen."""

    def __init__(self, now: float) -> None:
        self._allowed = 0
        self._looked = now
        self.ended = False

    def exceeds(self, received: int, now: float) -> bool:
        """Whether so many bytes in all are more than a hello, subscriptions and heartbeats until now.

        Heartbeats are allowed by the second. What was not needed for them is not saved up.
        """
        beats = int(unread.SECOND_OVERHEAD * (now - self._looked)) + 1
        self._looked = now
        self._allowed = min(self._allowed + beats, received)
        return received - self._allowed > unread.MOST_FROM_LISTENER


class Door:
    """One TCP socket that others connect to, and who is there. `ended` is told of each connection that was cut."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        # Known once it is bound.
        self.port = 0
        self.listeners: dict[int, Listener] = {}
        # From then on nobody says who comes and goes, and the table of open files is searched instead.
        self.searched = False

    def connections(self) -> set[int]:
        """Those that are there at the moment."""
        return set(self.listeners)

    def look(self, descriptor: int) -> None:
        """Hang up on this connection if it sent too much."""
        listener, received = self.listeners.get(descriptor), unread.bytes_received(descriptor)
        if listener is None or listener.ended or received is None:
            return
        if listener.exceeds(received, time.monotonic()) and unread.hang_up(descriptor, received):
            listener.ended = True
            self._ended()

    def search(self) -> None:
        """Find all connections and look at them."""
        now, found = time.monotonic(), unread.accepted_at(self.port)
        self.listeners = {each: self.listeners.get(each) or Listener(now) for each in found}
        for descriptor in found:
            self.look(descriptor)


class Doorkeeper:
    """The thread and its doors. `come` and `go` are for the thread alone."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._doors: list[Door] = []
        self._due = 0.0
        self._over = False
        self._thread = threading.Thread(target=self._watch, name="doorkeeper", daemon=True)
        self._asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
        # Written to when the thread is asked for something.
        self._bell, self._rope = os.pipe()
        self._selector.register(self._bell, selectors.EVENT_READ, lambda: os.read(self._bell, 4096))

    def keep(self, door: Door, ear: int, hear: Callable[[], object]) -> None:
        """Before the start: watch this door too. When `ear` stirs the thread calls `hear`, and that `come` and `go`."""
        self._doors.append(door)
        self._selector.register(ear, selectors.EVENT_READ, hear)
        # It may have stirred before.
        self._ask(hear)

    def come(self, door: Door, descriptor: int) -> None:
        self.go(door, descriptor)
        door.listeners[descriptor] = Listener(time.monotonic())
        # One that is gone already cannot be watched and need not be.
        with suppress(OSError):
            self._selector.register(descriptor, selectors.EVENT_READ, lambda: door.look(descriptor))

    def go(self, door: Door, descriptor: int) -> None:
        if door.listeners.pop(descriptor, None) is not None:
            with suppress(KeyError):
                self._selector.unregister(descriptor)

    def start(self) -> None:
        if self._doors and not self._thread.is_alive():
            self._thread.start()

    def search(self, door: Door) -> None:
        """From now on nobody hears who comes through this door and goes."""
        self._ask(lambda: self._forget(door))

    def stop(self) -> None:
        """Watch no longer, and wait until the thread is gone."""
        if self._thread.is_alive():
            self._over = True
            os.write(self._rope, b"!")
            self._thread.join()
        self._selector.close()
        os.close(self._bell)
        os.close(self._rope)

    def _ask(self, what: Callable[[], object]) -> None:
        self._asked.put(what)
        os.write(self._rope, b"!")

    def _forget(self, door: Door) -> None:
        for descriptor in door.connections():
            with suppress(KeyError):
                self._selector.unregister(descriptor)
        door.searched = True

    def _watch(self) -> None:
        while not self._over:
            searched = [door for door in self._doors if door.searched]
            wait = max(0.0, self._due - time.monotonic()) if searched else None
            for key, _ in self._selector.select(wait):
                key.data()
            while not self._asked.empty():
                self._asked.get()()
            if searched and time.monotonic() >= self._due:
                for door in searched:
                    door.search()
                self._due = time.monotonic() + unread.pause(sum(len(door.listeners) for door in searched))
            time.sleep(REST)
