"""A real Dask scheduler and real workers as processes of their own, in this network or in namespaces."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.launch.conftest import ROOT
from tests.launch.processes.test_forkserver import until

LEAVE_SECONDS = 20
ENVIRONMENT = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@dataclass
class DaskCluster:
    """Started bit by bit, ended as a whole. `inside` is what comes before a command that runs somewhere else."""

    folder: Path
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """As `--on` wants it."""
        found: str = json.loads((self.folder / "scheduler.json").read_text())["address"]
        return found.replace("tcp://", "dask://")

    def start_scheduler(self, host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> None:
        file = self.folder / "scheduler.json"
        options = ("--host", host, "--port", "0", "--no-dashboard", "--no-show", "--scheduler-file", str(file))
        self._start("scheduler", "dask_scheduler", inside, *options)
        until(file.exists)

    def start_worker(
        self, name: str, host: str = "127.0.0.1", inside: tuple[str, ...] = (), cwd: Path | None = None
    ) -> None:
        options = ("--host", host, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        files = ("--scheduler-file", str(self.folder / "scheduler.json"), "--local-directory", str(self.folder / name))
        self._start(name, "dask_worker", inside, *options, *files, cwd=cwd)
        until(lambda: "Registered to" in self.log(name))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in reversed(self.processes.values()):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(LEAVE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, program: str, inside: tuple[str, ...], *options: str, cwd: Path | None = None) -> None:
        command = [*inside, sys.executable, "-m", f"distributed.cli.{program}", *options]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT, cwd=cwd)
