"""What every run leaves behind: its report; and, if somebody wants to watch, a live page that ends as the report."""

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self

import click

from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.record.witness import Witness
from parley.launch.report.model import make_model
from parley.launch.report.page import write_page
from parley.launch.results.folder import RunFolder
from parley.launch.results.printable import printable
from parley.nodes.environment import child_environment

# The page lingers a little for its browsers; after that it is ended.
PATIENCE_SECONDS = 10.0


class Watcher:
    """The launcher's side of the live page. Use as a context: leaving it ends the page's process."""

    def __init__(self, folder: RunFolder) -> None:
        if find_spec("uvicorn") is None or find_spec("starlette") is None:
            raise BadInput("--watch needs two more packages: pip install 'parley-ldp[watch]'")
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        token = secrets.token_urlsafe(16)
        # Bound and listening before its server is up: a browser that comes early waits instead of being refused.
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "parley.launch.report.watch", str(listening.fileno()), str(os.getpid())],
                pass_fds=[listening.fileno()],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._complaints,
                env=child_environment(),
                start_new_session=True,
            )
        order = {"run": folder.run, "transcript": str(folder.transcript), "token": token}
        self._tell(json.dumps(order) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        try:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self._complain()

    def show(self, report: Path) -> None:
        """The run is over and this is its report: the page keeps what it shows."""
        self._tell(str(report))

    def _tell(self, text: str) -> None:
        """A few words, so that a page that has stopped reading cannot hold us up."""
        assert self.process.stdin is not None
        # A page that died is a pity, but no reason to end a run; what it said is told at the end.
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()

    def _complain(self) -> None:
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace").strip()
        self._complaints.close()
        if said:
            click.echo(f"parley: the live page failed: {printable(said.splitlines()[-1])}", err=True)


@contextmanager
def reporting(folder: RunFolder, *, watch: bool) -> Iterator[Callable[[], None]]:
    """However what is inside ends, write report.html if there is a record; with `watch`, serve a page meanwhile.

    Gives a function that writes the report at once, for one who knows that the record is complete.
    """
    written: list[Path | None] = []

    def write() -> None:
        if not written:
            written.append(write_report(folder))

    if not watch:
        try:
            yield write
        finally:
            write()
        return
    with Watcher(folder) as watcher:
        click.echo(f"watch this run at {watcher.url}", err=True)
        try:
            yield write
        finally:
            write()
            if written[0] is not None:
                watcher.show(written[0])


def write_report(folder: RunFolder) -> Path | None:
    """Write report.html; None where there is no record or the page could not be written."""
    if not folder.transcript.exists():
        return None
    report = folder.path / "report.html"
    try:
        witness = Witness.load(folder.witness) if folder.witness.exists() else None
        write_page(report, make_model(folder.transcript, witness=witness))
    except ParleyError as error:
        click.echo(f"parley: no report was written: {printable(str(error))}", err=True)
        return None
    return report
