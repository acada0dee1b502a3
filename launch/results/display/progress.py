"""What a person sees while a run goes on: bars on a terminal, one line a round elsewhere, always on standard error."""

import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Self, TextIO

from rich.console import Console
from rich.errors import LiveError
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

from parley.launch.results.display.printable import printable_lines

PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a run has come, as its record tells."""

    nodes: int
    joined: int = 0
    users: int
    declared: int
    round: int = 0
    # Users who are to answer in this round; None where that is not known.
    asked: int | None = None
    replies: int = 0
    closed: int = 0
    missing: int = 0
    seconds: float = 0.0


class Progress(AbstractContextManager["Progress"]):
    """Nothing but what went wrong. Shown as a context, so that a terminal is given back as it was."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, standing: Standing) -> None:
        """The run has come this far."""

    def note(self, text: str) -> None:
        """Something worth a line happened. It may quote a node's log: only our own line breaks are kept."""
        print(printable_lines(text), file=self.stream, flush=True)


class Lines(Progress):
    """A line when everybody is there, and one for each round that was closed."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._started = False
        self._closed = 0

    def show(self, standing: Standing) -> None:
        if not self._started and standing.round:
            self._started = True
            self.note(f"{standing.joined} of {standing.nodes} user nodes ready")
        if standing.closed > self._closed:
            self._closed = standing.closed
            absent = f", {standing.missing} users missing" if standing.missing else ""
            self.note(
                f"round {standing.closed} of {standing.declared}: "
                f"{standing.replies} replies in {standing.seconds:.2f} s{absent}"
            )


class Terminal(Progress):
    """A bar for the start-up and one for each round."""

    def __init__(self, console: Console) -> None:
        self.bars = Bars(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def show(self, standing: Standing) -> None:
        show_bar(self.bars, "start-up", standing.joined, standing.nodes)
        # No more bars than rounds were declared, whatever number the record names.
        if 1 <= standing.round <= standing.declared:
            total = standing.users if standing.asked is None else standing.asked
            show_bar(self.bars, f"round {standing.round} of {standing.declared}", standing.replies, total)

    def note(self, text: str) -> None:
        self.bars.console.print(printable_lines(text), markup=False, highlight=False, emoji=False)


class RateColumn(ProgressColumn):
    """How much is done a second; `units` names what is counted by the label of the bar, bytes where it does not."""

    def __init__(self, units: Mapping[str, str]) -> None:
        super().__init__()
        self.units = units

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        unit = self.units.get(task.description)
        return Text(f"{speed / 2**20:,.1f} MiB/s" if unit is None else f"{speed:,.0f} {unit}/s")


def show_bar(bars: Bars, label: str, done: int, total: int) -> None:
    """Move the bar with this label, which is made when it is first shown."""
    task = next((each.id for each in bars.tasks if each.description == label), None)
    bars.update(bars.add_task(label) if task is None else task, completed=done, total=total)


class Working(AbstractContextManager["Working"]):
    """On a terminal, a spinner beside what takes long, once it has taken so long that one wonders."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._what, self._console = what, Console(stderr=True)
        self._lock, self._over = threading.Lock(), quiet
        self._spinner = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._timer = threading.Timer(PATIENCE_SECONDS, self._speak)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._spinner.live.is_started:
                self._spinner.stop()

    def _speak(self) -> None:
        with self._lock:
            if self._over or not self._console.is_terminal:
                return
            task = self._spinner.add_task(self._what, total=None)
            # The clock began before the spinner did.
            self._spinner.tasks[task].start_time = self._spinner.get_time() - (time.monotonic() - self._began)
            # Where bars are shown already, they tell that something goes on.
            with suppress(LiveError):
                self._spinner.start()


def has_viewer() -> bool:
    """Whether somebody looks at standard error: a terminal or a notebook."""
    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def make_progress(*, quiet: bool) -> Progress:
    """Bars if standard error is a terminal, else lines; with `quiet` only what went wrong."""
    if quiet:
        return Progress(sys.stderr)
    return Terminal(Console(stderr=True)) if has_viewer() else Lines(sys.stderr)
