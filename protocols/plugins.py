"""Protocols from outside: Python files named by a person, and packages that offer the entry point `parley.protocols`.

A file is code and is run as such, so it is only ever named by whoever starts a process, never by a peer. The names
travel to child processes in an environment variable, since every party must know the protocol it speaks.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from inspect import isabstract
from pathlib import Path
from types import ModuleType
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol

VARIABLE = "PARLEY_PROTOCOL_FILES"
GROUP = "parley.protocols"


def add_file(path: Path) -> None:
    """Let this process and its children know the protocols of a file; BadInput if there are none."""
    if not list(protocols_in(path)):
        raise BadInput(f"{path} defines no protocol: a class with name, summary, design and from_parameters")
    known = [*os.environ.get(VARIABLE, "").split(os.pathsep), str(path.resolve())]
    os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys(filter(None, known)))


def outside() -> Iterator[type[Any]]:
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        yield from protocols_in(Path(name))
    for point in entry_points(group=GROUP):
        yield point.load()


def protocols_in(path: Path) -> Iterator[type[Any]]:
    module = _load(path)
    for value in vars(module).values():
        own = isinstance(value, type) and issubclass(value, Protocol) and value.__module__ == module.__name__
        if own and not isabstract(value) and hasattr(value, "name"):
            yield value


def _load(path: Path) -> ModuleType:
    name = f"parley_outside_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if path.suffix != ".py" or not path.is_file():
        raise BadInput(f"--protocol-file {path} is not a Python file")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        # Whatever a stranger's file may raise.
        del sys.modules[name]
        raise BadInput(f"--protocol-file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
