"""How many processes this machine can hold: checked before anything starts, with the setting that lifts the limit.

What breaks first depends on the machine. A node is three tasks to the kernel (its own thread and two of the transport),
a few MiB of memory of its own, and two connections. For each connection the board, or a relay, needs a descriptor, and
the loopback interface a port.
"""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.transport.addresses import descriptors_for, raise_file_limit

TASKS_PER_NODE = 3
# With the kernel's part, as benchmarks/processes.py measures it.
MEBIBYTES_PER_NODE = 7.2 if sys.version_info >= (3, 12) else 8.0
SPARE_TASKS = 64
# A handful of nodes fits everywhere; reading the kernel's files for them would be a waste.
FEW = 64


def check_room(nodes: int, relays: int = 0, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
    """BadInput if so many user nodes do not fit on this machine."""
    if nodes <= FEW:
        return
    room, cause, cure = min(limits(proc, groups), default=(nodes, "", ""))
    if nodes > room:
        why = f"{cause} leaves room for {max(0, room)}; {cure}, or give fewer processes"
        raise BadInput(f"{nodes} user processes do not fit: {why}")
    # Whoever listens holds a post and a feed connection of each node and raises its own limit; here we learn if it can.
    raise_file_limit(descriptors_for(max(relays, -(-nodes // relays)) if relays else nodes))


def limits(proc: Path, groups: Path) -> Iterator[tuple[int, str, str]]:
    """So many user nodes fit, because of this, and what lifts it: every limit that is known here."""
    # How many tasks are left, because of what, and what lifts that.
    tasks: list[tuple[int, str, str]] = []
    try:
        # Tasks there are now: the fourth field is running/all.
        running = int((proc / "loadavg").read_text().split()[3].split("/")[1])
    except (OSError, ValueError, IndexError):
        running = 0
    for name in ("threads-max", "pid_max"):
        if (most := _number(proc / "sys" / "kernel" / name)) is not None:
            tasks.append((most - running, f"kernel.{name} = {most}", f"raise it with `sysctl kernel.{name}=...`"))
    for file in _pids_max(proc, groups):
        if (most := _number(file)) is not None:
            left = most - (_number(file.with_name("pids.current")) or 0)
            cure = "raise TasksMax= of the systemd unit, or --pids-limit of the container"
            tasks.append((left, f"pids.max = {most} of the control group", cure))
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    if os.geteuid() != 0 and hard != resource.RLIM_INFINITY:
        tasks.append((hard - running, f"`ulimit -Hu` = {hard}", "raise nproc in /etc/security/limits.conf"))
    for left, cause, cure in tasks:
        yield (left - SPARE_TASKS) // TASKS_PER_NODE, cause, cure
    with suppress(OSError, ValueError, KeyError):
        # MiB that programs can still have.
        fields = dict(line.split(":", 1) for line in (proc / "meminfo").read_text().splitlines())
        free = int(fields["MemAvailable"].split()[0]) // 1024
        yield int(free / MEBIBYTES_PER_NODE), f"{free} MiB of free memory", "free some memory"
    with suppress(OSError, ValueError):
        # Connections from this machine to one port of its own.
        low, high = map(int, (proc / "sys/net/ipv4/ip_local_port_range").read_text().split())
        cure = "widen it with `sysctl net.ipv4.ip_local_port_range=...`"
        yield high - low + 1, "net.ipv4.ip_local_port_range", cure


def _number(file: Path) -> int | None:
    """The number in a file of the kernel; None where there is no such file or no limit in it."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _pids_max(proc: Path, groups: Path) -> Iterator[Path]:
    """The files that say how many tasks our control group and those above it may have, in both versions."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "pids"):
            top = groups / controllers
            inner = top / path.lstrip("/")
            for folder in (inner, *inner.parents):
                yield folder / "pids.max"
                if folder == top:
                    break
