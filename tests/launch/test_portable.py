"""Nothing on the main path is Linux-only without a guard: many researchers sit at a Mac."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.launch.conftest import ROOT

# What macOS lacks, of the modules that wrap the operating system.
LINUX_ONLY = {
    "os": {
        *("fdatasync", "sched_getaffinity", "sched_setaffinity", "pipe2", "memfd_create", "pidfd_open", "eventfd"),
        *(
            "posix_fadvise",
            "posix_fallocate",
            "splice",
            "copy_file_range",
            "setns",
            "unshare",
            "getrandom",
            "setresuid",
        ),
        *("O_TMPFILE", "O_DIRECT", "O_NOATIME", "O_PATH"),
    },
    "select": {"epoll"},
    "socket": {"SOCK_CLOEXEC", "SOCK_NONBLOCK", "SO_PEERCRED", "TCP_USER_TIMEOUT", "TCP_QUICKACK", "SO_BINDTODEVICE"},
    "resource": {"prlimit"},
    "signal": {"SIGRTMIN", "SIGPWR", "pidfd_send_signal"},
}
FILES = [path for layer in ("emulator", "protocols", "nodes", "launch") for path in (ROOT / layer).rglob("*.py")]
# Runs when any Python starts, also that of the processes of a run.
MAC = """
import os
for name in ("fdatasync", "sched_getaffinity", "pipe2", "memfd_create", "pidfd_open", "posix_fadvise"):
    if hasattr(os, name):
        delattr(os, name)
"""
PROBLEM = (
    "run --statistic kendall --levels 3x3 --epsilon 1 --users 60 --protocol one-round-tuned --processes 2 --out run"
)


def test_no_call_is_linux_only() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                missing = LINUX_ONLY.get(node.value.id, set())
                assert node.attr not in missing, f"{path}:{node.lineno} needs {node.attr}, which macOS lacks"


@pytest.mark.parametrize("more", [(), ("--in-memory",)], ids=["processes", "memory"])
def test_a_run_without_what_only_linux_has(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "sitecustomize.py").write_text(MAC)
    command = [sys.executable, "-m", "parley.launch.cli", *PROBLEM.split(), *more]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "run" / "result.json").is_file()
