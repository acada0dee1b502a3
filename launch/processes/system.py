"""What is asked of the kernel directly."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CRASHED = 70


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent ends; if it has ended already, end now."""
    # A kernel without prctl has no such promise; closing the channel still ends the fork server and its children.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(CRASHED)
