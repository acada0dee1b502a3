"""What every run leaves behind: its report; and, if somebody wants to watch, a live page that ends as the report."""

import json
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import click

from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.record.witness import Witness
from parley.launch.processes.processes import last_complaint, start_helper
from parley.launch.report.model import make_model
from parley.launch.report.page import write_page
from parley.launch.report.story import Story
from parley.launch.results.display.printable import printable
from parley.launch.results.display.progress import Working
from parley.launch.results.folder import RunFolder

# The page lingers a little for its browsers; after that it is ended.
PATIENCE_SECONDS = 10.0


class Watcher(AbstractContextManager["Watcher"]):
    """The launcher's side of the live page. Use as a context: leaving it ends the page's process."""

    def __init__(self, folder: RunFolder) -> None:
        if find_spec("uvicorn") is None or find_spec("starlette") is None:
            raise BadInput("--watch needs two more packages: pip install 'parley-ldp[watch]'")
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        token = secrets.token_urlsafe(16)
        # Bound and listening before its server is up: a browser that comes early waits instead of being refused.
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
            self.process = start_helper("parley.launch.report.watch", listening, self._complaints, subprocess.PIPE)
        order = {"run": folder.run, "transcript": str(folder.transcript), "token": token}
        self.tell(json.dumps(order) + "\n")

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
            with self._complaints as complaints:
                if said := last_complaint(complaints):
                    click.echo(f"parley: the live page failed: {printable(said)}", err=True)

    def tell(self, text: str) -> None:
        """What to follow and, when the run is over, which report to show.

        A few words, so that a page that has stopped reading cannot hold us up.
        """
        assert self.process.stdin is not None
        # A page that died is a pity, but no reason to end a run; what it said is told at the end.
        with suppress(BrokenPipeError):
            self.process.stdin.write(text.encode())
            self.process.stdin.flush()


@contextmanager
def reporting(
    folder: RunFolder, *, watch: bool, open_page: bool = False, witness: Witness | None = None
) -> Iterator[Callable[..., None]]:
    """However what is inside ends, write report.html if there is a record; with `watch`, serve a page meanwhile.

    `witness`: what the file of that name holds, for one who has it in memory.
    `open_page` shows either of them in a browser. Gives a function that writes the report at once, for one who knows
    that the record is complete; whoever has followed it gives its story.
    """
    written: list[Path | None] = []

    def write(story: Story | None = None) -> None:
        if written:
            return
        written.append(None)
        if not folder.transcript.exists():
            return
        report = folder.path / "report.html"
        try:
            known = Witness.load(folder.witness) if witness is None and folder.witness.exists() else witness
            with Working("writing the report"):
                write_page(report, make_model(folder.transcript, witness=known, story=story))
            written[0] = report
        except ParleyError as error:
            click.echo(f"parley: no report was written: {printable(str(error))}", err=True)

    with Watcher(folder) if watch else nullcontext() as watcher:
        if watcher is not None:
            click.echo(f"watch this run at {watcher.url}", err=True)
            if open_page:
                show_in_browser(watcher.url)
        try:
            yield write
        finally:
            write()
            if watcher is not None and written[0] is not None:
                watcher.tell(str(written[0]))
            elif open_page and written[0] is not None:
                show_in_browser(written[0].absolute().as_uri())


def show_in_browser(address: str) -> None:
    """Open a page in the browser of this machine; where there is none, say where the page is."""
    import webbrowser

    if not webbrowser.open(address):
        click.echo(f"parley: no browser could be started; open {address}", err=True)
