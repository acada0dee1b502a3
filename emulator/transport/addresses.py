"""Where the board's channels are, who may reach them there, and how many connections this process may hold."""

import errno
import ipaddress
import re
import resource
import socket
from contextlib import suppress
from dataclasses import dataclass

from parley.emulator.errors import BadInput

_TCP = re.compile(r"tcp://(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.*-]+):(?P<port>\*|[0-9]{1,5})")
_IPC = re.compile(r"ipc://(?P<path>[^*@\0][^\0]{0,106})")
# So many processes on one machine answer each other in time.
_PROMPT_PEERS = 1000
_OWN_DESCRIPTORS = 256


@dataclass(frozen=True, kw_only=True)
class BoardAddresses:
    """`tcp://host:port` (port 0 or * binds a free one) or `ipc://path` for each of the board's three channels."""

    inbox: str
    feed: str
    delivery: str

    def __post_init__(self) -> None:
        for address in vars(self).values():
            match = _TCP.fullmatch(address)
            if match is None and _IPC.fullmatch(address) is None:
                raise BadInput(f"not an address: {address!r}; write tcp://host:port or ipc://path")
            if match is not None and match["port"] != "*" and int(match["port"]) > 65535:
                raise BadInput(f"port {match['port']} in {address} does not exist; the largest is 65535")

    @classmethod
    def on(cls, host: str = "127.0.0.1", first_port: int = 0) -> "BoardAddresses":
        """Three ports in a row on one host; from 0, any three free ones."""
        inbox, feed, delivery = (f"tcp://{host}:{first_port + step if first_port else 0}" for step in range(3))
        return cls(inbox=inbox, feed=feed, delivery=delivery)


def host_and_port(address: str) -> tuple[str, str] | None:
    """Host and port of a tcp address; None for ipc."""
    match = _TCP.fullmatch(address)
    return None if match is None else (match["host"].strip("[]"), match["port"])


def check_private(address: str) -> None:
    """Without keys anybody who reaches the port could read and write: only this machine may."""
    place = host_and_port(address)
    if place is None or _is_loopback(place[0]):
        return
    who = "from other machines, where without keys anyone could listen and speak for users"
    raise BadInput(f"{place[0]} can be reached {who}; give keys (see `parley keys`), or use 127.0.0.1")


def check_known(address: str) -> None:
    """One can bind any free port, but connect only to a certain one."""
    place = host_and_port(address)
    if place is not None and (place[0] == "*" or place[1] in ("*", "0")):
        raise BadInput(f"cannot connect to {address}; give the board's real host and port")


def check_free(address: str) -> None:
    """An ipc path with a living listener is taken: libzmq would quietly take it away from that one."""
    path = address.removeprefix("ipc://")
    if path == address:
        return
    with socket.socket(socket.AF_UNIX) as probe, suppress(FileNotFoundError, ConnectionRefusedError):
        probe.connect(path)
        raise BadInput(f"{path} is in use; choose another path")


def cannot_bind(address: str, number: int, reason: str) -> BadInput:
    """What to tell the person whose address the operating system refused."""
    place = host_and_port(address)
    if place is not None and number == errno.EADDRINUSE:
        return BadInput(f"port {place[1]} on {place[0]} is in use; choose another, or 0 for any free one")
    return BadInput(f"cannot listen at {address}: {reason}; choose an address of this machine")


def descriptors_for(nodes: int) -> int:
    """File descriptors a board needs for so many user nodes: an inbox and a feed connection each, and its own."""
    return 2 * nodes + _OWN_DESCRIPTORS


def pace_for(peers: int) -> float:
    """How many times longer than usual to wait for peers, of whom so many may share a processor."""
    return max(1.0, peers / _PROMPT_PEERS)


def raise_file_limit(needed: int) -> None:
    """Make room for `needed` open files, or say before anything starts that it does not fit.

    A binding socket that runs out of descriptors raises nothing: connections just never come about.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    # As many as are allowed: who comes back before its old connection is cleared away needs another.
    wanted = (2 * needed, hard) if hard == resource.RLIM_INFINITY else (max(needed, hard), max(needed, hard))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
    except (ValueError, OSError) as error:
        raise BadInput(
            f"{needed} open files are needed and the hard limit is {hard}; raise it (`ulimit -Hn {needed}` as root, "
            "or nofile in /etc/security/limits.conf), put relays in between, or use fewer processes"
        ) from error


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
