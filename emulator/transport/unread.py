"""What each connection has sent that nobody could read yet.

libzmq hands over whole messages only. It limits the size of one part and the number of unread messages, but not the
parts of a message that has not ended: a peer that never ends one fills the memory of whoever listens. So the bytes
that the kernel counts for a connection are compared with the bytes of the messages that came out of it. Where
nothing is left to read and the difference is more than the largest message, the peer is holding its message back.
"""

import ctypes
import fcntl
import os
import resource
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterable

from parley.emulator.wire.codec import LARGEST_FRAME

# Beside the message itself: what libzmq has read and not sorted into messages yet, handshake, topic.
SLACK = 2**20
MOST_UNFINISHED = LARGEST_FRAME + SLACK
# Where the reader cannot keep up, whole messages are unread too; even of them nobody needs more than this.
MOST_UNREAD = 2**30
# Who may only listen says hello, subscribes, and answers heartbeats.
MOST_FROM_LISTENER = 2**16
# What a process may take for itself while much is unread, and for each unread byte.
MOST_SWELLING = 2**28
SWELLING_A_BYTE = 4
# What may come on top of the contents: headers and seals of each message, heartbeats each second.
FRAME_OVERHEAD = 64
SECOND_OVERHEAD = 64
# A look costs a microsecond or two a connection and should take a small share of the time.
SHORTEST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
PAUSE_A_CONNECTION = 0.00005

_INFO_BYTES = 256
_RECEIVED_AT = 128
_COUNT = struct.Struct("<Q")
_WORD = struct.Struct("=i")
_PEER = socket.socket.getpeername
_NO_LINGER = struct.pack("ii", 1, 0)


def bytes_received(descriptor: int) -> int | None:
    """How many bytes ever came over a TCP connection; None where that cannot be known."""
    try:
        with _Borrowed(descriptor) as connection:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        return int(_COUNT.unpack_from(info, _RECEIVED_AT)[0])
    except (OSError, AttributeError, struct.error):
        # Another kind of connection, one that has just ended, or a system that does not count.
        return None


def bytes_waiting(descriptor: int) -> int:
    """How many of them are still in the kernel, where their number has a limit."""
    try:
        return int(_WORD.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_WORD.size)))[0])
    except OSError:
        return 0


def accepted_at(port: int) -> set[int]:
    """The connections of this process that came in at a port, from the table of its open files."""
    return {number for number in _open_files() if _port(number, socket.socket.getsockname) == port}


class Connected:
    """The connections of this process to ports of others, for sockets that have one each.

    A look into the table of open files costs more than all else that a silent node does. Once every socket has its
    connection, there are no others: the table is searched again when one of them is gone.
    """

    def __init__(self) -> None:
        self._ports: list[int] = []
        self._known: dict[int, int] = {}

    def to(self, port: int) -> Callable[[], set[int]]:
        """For one more socket, which connects to this port: a function that says what is connected to it now."""
        self._ports.append(port)
        return lambda: self._find(port)

    def _find(self, port: int) -> set[int]:
        # Another connection may have the number of one that is gone, so each is asked where it leads.
        known = {number: place for number, place in self._known.items() if _port(number, _PEER) == place}
        if len(known) < len(self._ports):
            known = {number: place for number in _open_files() if (place := _port(number, _PEER)) in self._ports}
        self._known = known
        return {number for number, place in known.items() if place == port}


def _port(descriptor: int, name_of: Callable[[socket.socket], object]) -> int:
    """The port at one end of a connection; 0 for a file, a pipe, what is closed, and what is not connected."""
    try:
        with _Borrowed(descriptor) as connection:
            place = name_of(connection)
    except OSError:
        return 0
    return place[1] if isinstance(place, tuple) and len(place) > 1 else 0


def _open_files() -> Iterable[int]:
    if not os.path.isdir("/proc/self/fd"):
        return ()
    try:
        return map(int, os.listdir("/proc/self/fd"))
    except OSError:
        # To read the table takes a free descriptor. Where there is none, all numbers are in use.
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def hang_up(descriptor: int, at_least: int) -> bool:
    """End a connection over which so many bytes came; another under its old number is left alone."""
    received = bytes_received(descriptor)
    if received is None or received < at_least:
        return False
    try:
        with _Borrowed(descriptor) as connection:
            # So that its end is a reset: a peer that waits for room to send hears of no other end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


class _Borrowed(socket.socket):
    """A connection that is libzmq's: looked at and given back, never closed. The family says how long a name may be."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)

    def __exit__(self, *_: object) -> None:
        self.detach()


class Unread:
    """The connections of one socket and what of theirs is unread."""

    def __init__(
        self,
        *,
        most: int = MOST_UNFINISHED,
        received: Callable[[int], int | None] = bytes_received,
        waiting: Callable[[int], int] = bytes_waiting,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most`: bytes that a connection may have unread while no whole message is."""
        self.most = most
        self._received = received
        self._waiting = waiting
        self._clock = clock
        self._looked = clock()
        # For each connection: bytes accounted for, and bytes that had come at the last look. Of a new one messages may
        # be taken before the first look.
        self._taken: dict[int, int] = {}
        self._early: dict[int, int] = {}
        self._seen: dict[int, int] = {}

    def took(self, descriptor: int, size: int) -> None:
        """A message, or a part of one, of so many bytes came out of this connection."""
        try:
            self._taken[descriptor] += size + FRAME_OVERHEAD
        except KeyError:
            self._early[descriptor] = self._early.get(descriptor, 0) + size + FRAME_OVERHEAD

    def look(self, descriptors: Iterable[int]) -> None:
        """See how much has come by now over each of these, which are all there are."""
        now = self._clock()
        beats = int(SECOND_OVERHEAD * (now - self._looked)) + 1
        self._looked = now
        before, self._taken, self._early, self._seen = {**self._early, **self._taken}, {}, {}, {}
        for descriptor in descriptors:
            received = self._received(descriptor)
            if received is not None:
                # More than has come cannot have been taken: no credit is saved up, and none is handed on to another
                # connection under an old number.
                taken = self._taken[descriptor] = min(before.get(descriptor, 0) + beats, received)
                # Asked second: what comes between the two questions makes the answer too small, never too large.
                waiting = self._waiting(descriptor) if received - taken > self.most else 0
                self._seen[descriptor] = received - waiting

    def beyond(self, most: int | None = None) -> list[int]:
        """Connections with more unread bytes at the last look, less what was taken since, than this."""
        limit = self.most if most is None else most
        return [each for each, taken in self._taken.items() if self._seen[each] - taken > limit]

    @property
    def largest(self) -> tuple[int, int]:
        """The most bytes that a connection has unread, and which one; none, with no connection."""
        return max(((self._seen[each] - taken, each) for each, taken in self._taken.items()), default=(0, -1))

    def end(self, descriptor: int) -> bool:
        """Hang up on one of these, and whether it was still there. What libzmq held of it it lets go."""
        # libzmq may take a while to notice. Until then it is not to be found again for the same bytes.
        self._taken[descriptor] = self._seen[descriptor]
        return hang_up(descriptor, self._seen[descriptor])


class Swelling:
    """Whether this process grows by much more than what is unread: parts of no bytes take memory, too.

    For an empty part two bytes are sent and 64 kept. Memory the process takes for itself cannot be told from that,
    so it may take a lot, and is measured from when little was unread.
    """

    def __init__(self, resident: Callable[[], int] | None = None) -> None:
        self._resident = resident or resident_bytes
        self._calm = self._resident()

    def check(self, unread: int, ahead: int = 0) -> bool:
        """Whether that much has been gained since little was unread; from then on it is counted anew.

        `ahead`: bytes of whole messages that were taken and wait for their reader. They are nobody's fault.
        """
        if unread <= SLACK:
            self._calm = self._resident() - ahead
            return False
        allowed = self._calm + MOST_SWELLING + SWELLING_A_BYTE * unread + ahead
        if self._resident() <= allowed:
            return False
        give_back()
        if self._resident() <= allowed:
            return False
        self._calm = self._resident() - ahead
        return True


def resident_bytes() -> int:
    """Memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def give_back() -> None:
    """Let the C library return what it keeps for later, so that only what is in use is counted."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def pause(connections: int) -> float:
    """Seconds between two looks at so many connections."""
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, PAUSE_A_CONNECTION * connections))
