"""Small runs to report on, and a real browser to look at their pages."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Reminder
from parley.launch.cli import run

PROBLEM = ("--statistic", "kendall", "--levels", "4x4", "--epsilon", "4", "--protocol", "three-round")
QUIET_BROWSER = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
USERS, NODES, ROUNDS = 6, 2, 3
# Each node is ready; roster and setup; a round is announced, answered by every user and closed; the result.
ARROWS = NODES + 2 + ROUNDS * (1 + USERS + 1) + 1


def expected_arrows(run: Path) -> int:
    """The arrows of the small run, and one for each reminder that a slow machine made the board send."""
    records = TranscriptReader(run / "transcript.parley")
    return ARROWS + sum(isinstance(record.message, Reminder) for record in records)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 6 users in 2 processes."""
    out = tmp_path_factory.mktemp("small") / "run"
    arguments = ("run", *PROBLEM, "--users", USERS, "--processes", NODES, "--seed", 7, "--quiet", "--out", out)
    assert run([str(each) for each in arguments]) == 0
    return out


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    """The transcript of the small run, to be spoilt; there is no witness beside it."""
    return Path(shutil.copy(small / "transcript.parley", tmp_path / "transcript.parley"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one file of tests: while its driver runs, no other event loop can in this process."""
    if os.environ.get("PARLEY_NO_BROWSER"):
        pytest.skip("PARLEY_NO_BROWSER is set")
    path = shutil.which(os.environ.get("PARLEY_CHROMIUM", "chromium"))
    assert path is not None, "there is no Chromium: run launch/browser.sh, or set PARLEY_NO_BROWSER=1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*QUIET_BROWSER])
        yield browser
        browser.close()


class Visitor:
    """Opens pages and remembers what no page of ours may do: complain, ask, or send for anything."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, address: str, *, width: int = 1280, dark: bool = False, **options: Any) -> Page:
        viewport = ViewportSize(width=width, height=900)
        context = self._browser.new_context(viewport=viewport, color_scheme="dark" if dark else "light", **options)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(address)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    visitor = Visitor(browser)
    yield visitor
    visitor.close()
    assert visitor.complaints == []
