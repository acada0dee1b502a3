"""What is asked of the kernel directly."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CRASHED = 70
# glibc's malloc.h: parameters of `mallopt`, and what they are set to, in bytes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT_BYTES, LARGEST_KEPT = 2**26, 2**25


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; if it has ended already, end now."""
    # A kernel without prctl has no such promise; closing the channel still ends the fork server and its children.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(CRASHED)


def keep_freed_memory() -> None:
    """Let this process, and those forked from it, use freed memory again instead of giving it back at once.

    Arrays of a few hundred KiB come and go with every frame. Getting their pages from the kernel each time takes longer
    than what is computed in them.
    """
    # Other C libraries than glibc have no such parameters.
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
