"""`parley run --in-memory`: an ordinary run folder, made by a virtual run in this process."""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from parley.emulator.transport.virtual_time import Process
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.virtual_run import VirtualRun, living
from parley.launch.results.display.progress import Progress
from parley.launch.results.folder import RunFolder

LOGGERS = ("board", "analyst", "user", "shuffler", "relay")


class MemoryCluster(Cluster):
    """The same folder, witness, keys, states and record; nothing but the processes is virtual."""

    def __init__(self, layout: Layout, folder: RunFolder, progress: Progress, seed: int | None) -> None:
        """Without a seed the schedule is drawn, too."""
        super().__init__(layout, folder, progress)
        self._seed = secrets.randbits(63) if seed is None else seed

    def _play(self, then: Callable[[], None] | None) -> None:
        run = VirtualRun(self.layout, self.folder, self._signers, seed=self._seed)
        self._time_ns = run.clock.time_ns
        try:
            with logs_in(self.folder):
                run.play()
        finally:
            self._show()
        for name, error in run.story.crashes:
            self.progress.note(f"{name} crashed: {error!r}; see {self.folder.log(name)}")
        self.follower.check_completed()
        self._conclude(then)


class _LogFiles(logging.Handler):
    """Writes what a virtual process says into its own log, with the time of its own clock."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self._folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        process: Process | None = living.get()
        if process is not None:
            moment = datetime.fromtimestamp(process.clock.time_ns() / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
            with open(self._folder.log(process.name), "a") as log:
                print(moment, record.getMessage(), file=log)


@contextmanager
def logs_in(folder: RunFolder) -> Iterator[None]:
    """Inside, the logs of virtual processes go to the folder of their run."""
    handler, loggers = _LogFiles(folder), [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (level, propagate) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
            logger.propagate = propagate
