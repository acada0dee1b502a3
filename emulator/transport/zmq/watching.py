"""Watching a port's sockets: who is connected, who was turned away and why."""

import asyncio
import logging
import os
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import zmq
from zmq.utils.monitor import parse_monitor_message

from parley.emulator.transport.addresses import host_and_port
from parley.emulator.transport.ports import MOST_FRAMES
from parley.emulator.transport.unread import accepted_at
from parley.emulator.transport.zmq.channel import ONLY_LISTENS, Channel, events_of

if TYPE_CHECKING:
    from parley.emulator.transport.doors import Door, Doorkeeper

_CAUSES = {
    zmq.Event.ACCEPT_FAILED: "no more open files",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: "handshake broken off",
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: "no keys or the wrong board's key",
    zmq.Event.DISCONNECTED: "connection broken off: its process ended, or it sent more than a frame may have",
}
_COMING = zmq.Event.ACCEPTED | zmq.Event.CONNECTED
_HANDSHAKES = (
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL,
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL,
    # Counted by the gatekeeper, who knows why.
    zmq.Event.HANDSHAKE_FAILED_AUTH,
)
log = logging.getLogger("transport")


class Watch:
    """The connections of one port's sockets, and how many were refused."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.refused: Counter[str] = Counter()
        self._context = context
        self._deaf: set[Channel] = set()
        self._attended: list[tuple[asyncio.AbstractEventLoop, zmq.Socket[bytes]]] = []
        self._unattended: list[zmq.Socket[bytes]] = []
        self._keeper: Doorkeeper | None = None
        # What the doorkeeper saw, for the loop to deal with.
        self._reports: deque[Callable[[], None]] = deque()

    def start(self) -> None:
        """Let the doorkeeper begin, if there is a door."""
        if self._keeper is not None:
            self._keeper.start()

    def close(self) -> None:
        if self._keeper is not None:
            # It reads some of the sockets below. Subscriptions are not noted any more once a socket is closed.
            self._keeper.stop()
            self._keeper = None
        for loop, socket in self._attended:
            loop.remove_reader(socket.FD)
            socket.close(0)
        for socket in self._unattended:
            socket.close(0)
        self._attended.clear()
        self._unattended.clear()

    def door_for(self, channel: Channel) -> "Door":
        """A door that reports who sends where it may only listen."""
        # Only who listens has doors; a user's node has none.
        from parley.emulator.transport.doors import Door

        return Door(lambda: self._reports.append(partial(channel.count, ONLY_LISTENS)))

    def refusals(self) -> dict[str, int]:
        """How many connections and messages were refused so far, by cause."""
        self.hear_reports()
        return dict(self.refused)

    def hear_reports(self) -> None:
        """Deal with what the doorkeeper saw since the last time."""
        while self._reports:
            self._reports.popleft()()

    def watch(self, channel: Channel, events: int = 0, notice: Callable[[zmq.Event, int], None] | None = None) -> None:
        """Know a socket's connections, and call `notice` with each of these events and its value.

        That is done whenever somebody asks for the connections; where others connect to us, also when the loop is free.
        At a door the doorkeeper knows the connections, and the loop is told of the events.
        """
        name = f"inproc://watch-{channel.channels.index(channel)}"
        channel.socket.monitor(name, events | _COMING | zmq.Event.DISCONNECTED)
        ear = self._context.socket(zmq.PAIR)
        # Without a mark: libzmq's own thread would otherwise wait for us to read.
        ear.setsockopt(zmq.RCVHWM, 0)
        ear.connect(name)
        present: set[int] = set()
        come, go = present.add, present.discard
        if (door := channel.door) is not None:
            from parley.emulator.transport.doors import Doorkeeper

            keeper = self._keeper = self._keeper or Doorkeeper()
            come, go = partial(keeper.come, door), partial(keeper.go, door)

        def tell(parts: list[bytes]) -> None:
            message = parse_monitor_message(parts)
            event, value = zmq.Event(message["event"]), message["value"]
            if event & _COMING:
                come(value)
            elif event == zmq.Event.DISCONNECTED:
                go(value)
            if notice is not None and event & events and door is None:
                notice(event, value)
            elif notice is not None and event & events:
                self._reports.append(partial(notice, event, value))

        def hear() -> set[int]:
            while _handle_all(ear, tell):
                pass
            return present

        if door is not None:
            self._unattended.append(ear)
            keeper.keep(door, ear.FD, hear)
            channel.connections = door.connections
            return
        if channel.connects:
            self._unattended.append(ear)
        else:
            self.attend(ear, tell)
        channel.connections = hear

    def count_refusals(self, channel: Channel) -> None:
        """Count who was turned away. Without a free descriptor libzmq tries again without end: that we hear once.

        A peer that announces a frame beyond MAXMSGSIZE is cut off, and libzmq does not say that this was why.
        """
        failed, refused = 0, self.refused

        def notice(event: zmq.Event, value: int) -> None:
            nonlocal failed
            # After a handshake that failed libzmq reports the end of the connection too; that is not another one.
            if event == zmq.Event.DISCONNECTED and failed:
                failed -= 1
                return
            failed += event in _HANDSHAKES
            if event not in _CAUSES:
                return
            refused[_CAUSES[event]] += 1
            if event == zmq.Event.ACCEPT_FAILED and channel not in self._deaf:
                self._deaf.add(channel)
                log.error("connections cannot be accepted at %s: %s", channel.endpoint, os.strerror(value))
                channel.socket.disable_monitor()
                place = host_and_port(channel.endpoint)
                # Who comes and goes is not reported from now on.
                if channel.door is not None and self._keeper is not None:
                    self._keeper.search(channel.door)
                elif place is not None:
                    channel.connections = partial(accepted_at, int(place[1]))

        self.watch(channel, sum(_CAUSES) | zmq.Event.HANDSHAKE_FAILED_AUTH, notice)

    def attend(self, socket: zmq.Socket[bytes], handle: Callable[[list[bytes]], None]) -> None:
        """Handle what comes to a socket of our own whenever the loop is free."""
        loop = asyncio.get_running_loop()

        def look() -> None:
            if _handle_all(socket, handle):
                loop.call_soon(look)

        loop.add_reader(socket.FD, look)
        self._attended.append((loop, socket))
        look()


def _handle_all(socket: zmq.Socket[bytes], handle: Callable[[list[bytes]], None]) -> bool:
    """Handle what is there, up to a batch; whether there may be more."""
    for _ in range(MOST_FRAMES):
        if socket.closed or not events_of(socket) & zmq.POLLIN:
            return False
        handle(socket.recv_multipart(zmq.NOBLOCK))
    return True
