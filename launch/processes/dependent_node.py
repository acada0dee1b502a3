"""One node as a process that ends with its parent, whose child it is.

`python -m parley.launch.processes.dependent_node PARENT NODE ARGUMENT ...`, with a pipe of the parent's as standard
input.
"""

import os
import signal
import sys
import threading
from importlib import import_module

import click

from parley.launch.processes.system import die_with_parent


def _end_with_input() -> None:
    """Where the kernel does not tell of a parent's end, its pipe does."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> None:
    parent, node, *rest = arguments
    die_with_parent(int(parent))
    threading.Thread(target=_end_with_input, name="parent", daemon=True).start()
    command: click.Command = import_module(f"parley.nodes.{node}").main
    command.main(args=rest, prog_name=f"parley node {node}")


if __name__ == "__main__":
    main(sys.argv[1:])
