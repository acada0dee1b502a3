"""Throw-away virtual environments: other people's packages at pinned versions, gone when the benchmark ends."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.others.watched import Unavailable

INSTALL_SECONDS = 1800


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A folder with an interpreter of its own; `home` is where its programs may leave files."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def variables(self) -> dict[str, str]:
        """For its programs: nothing of Parley on the path, nothing written to the user's home, nothing reported."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"}
        return {**kept, **quiet, "HOME": str(self.home), "FLWR_HOME": str(self.home), "TMPDIR": str(self.home)}

    def versions(self) -> dict[str, str]:
        """Every package that is installed here."""
        places = [str(each) for each in self.folder.glob("lib/python*/site-packages")]
        return {each.metadata["Name"].lower().replace("_", "-"): each.version for each in distributions(path=places)}


@contextmanager
def environment(name: str, pins: Sequence[str], kept: Path | None) -> Iterator[Environment]:
    """These packages, from the index pip is configured for; thrown away unless there is a folder to keep them in."""
    if kept is not None:
        yield _made(kept / name, pins)
        return
    # Ray's sockets have paths of at most 107 bytes, so the name is short.
    with TemporaryDirectory(prefix="others-", ignore_cleanup_errors=True) as folder:
        yield _made(Path(folder), pins)


def _made(folder: Path, pins: Sequence[str]) -> Environment:
    """Made unless it is there already; Unavailable says what pip said."""
    made, done = Environment(folder=folder), folder / "pins.txt"
    if not done.exists() or done.read_text().split() != list(pins):
        step(sys.executable, "-m", "venv", "--clear", str(folder))
        step(str(made.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins)
        made.home.mkdir()
        done.write_text("\n".join(pins))
    return made


def step(*command: str) -> None:
    """Run to the end; Unavailable says what went wrong: pip's own errors first, for it warns as well."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"not installed within {INSTALL_SECONDS} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        raise Unavailable(f"not installed: {(errors or lines)[-1]}"[:200])
