"""Where the seconds of one `parley run` go, stage by stage, and what its processes take.

    python -m benchmarks.command --users 1000000 --seed 1          (any options of `parley run`)
    python -m benchmarks.command --rows 5000000 --seed 1           (a file of so many rows of two columns)
    python -m benchmarks.command --rows 5000000 --seed 1 --bins quantile --levels auto --protocol auto

Runs the command in this process, prints what it prints and then one line of JSON. Stages follow each other: `start` is
the interpreter and its imports, `data` makes the inputs, `protocol` chooses parameters, `processes` starts everybody,
`rounds` is the conversation until the record is complete, `answer` counts who replied, and `report` writes the page.
Memory is the largest resident size of each kind of process in MiB, `processor` its seconds of processor time; `used` is
the launcher's own, stage by stage, which moves less on a busy machine. What watching takes is left out of both.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.watcher import Watcher
from parley.launch.cli import run as run_command

# Where a stage begins: a function, by module and name. The stage lasts until the next one begins.
STAGES = {
    "data": ("parley.launch.commands.run", "make_problem"),
    "protocol": ("parley.launch.api", "Problem.protocol"),
    "processes": ("parley.launch.cluster.cluster", "Cluster._prepare"),
    "rounds": ("parley.launch.cluster.cluster", "Cluster._watch"),
    "answer": ("parley.launch.api", "Problem.answer"),
    "report": ("parley.launch.results.reporting", "make_model"),
    "end": ("parley.launch.commands.run", "command_seconds"),
}
BLOCK_ROWS = 1 << 18
OPTIONS = ("--statistic", "kendall", "--levels", "16x16", "--epsilon", "1", "--protocol", "two-round-tuned")


Marks = dict[str, tuple[float, float]]
"""When a stage began: the time, and the processor time that the launcher had used."""


def note_stages(marks: Marks, watcher: Watcher) -> None:
    """Have every stage write down when it begins for the first time."""
    for stage, (module, name) in STAGES.items():
        *path, last = name.split(".")
        place: Any = import_module(module)
        for each in path:
            place = getattr(place, each)
        setattr(place, last, _noting(stage, getattr(place, last), marks, watcher))


def _noting(stage: str, work: Callable[..., Any], marks: Marks, watcher: Watcher) -> Callable[..., Any]:
    def noted(*given: Any, **named: Any) -> Any:
        marks.setdefault(stage, (time.time(), time.process_time() - watcher.used))
        return work(*given, **named)

    return noted


def began() -> float:
    """When the kernel started this process."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    up = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - up + ticks / 100


def write_file(path: Path, rows: int) -> list[str]:
    """Two columns of delays in whole minutes, most of them short; the options that name them."""
    generator = np.random.default_rng(1)
    with path.open("w") as file:
        file.write("departure,arrival\n")
        for start in range(0, rows, BLOCK_ROWS):
            departure = np.exp(generator.normal(2.5, 1.2, min(BLOCK_ROWS, rows - start))) - 12
            arrival = departure + generator.normal(-5, 15, len(departure))
            np.savetxt(file, np.column_stack([departure, arrival]), fmt="%.0f", delimiter=",")
    ranges = ("--range", "departure=-60:1300", "--range", "arrival=-90:1270")
    return ["--data", str(path), "--columns", "departure,arrival", *ranges]


def main(arguments: list[str]) -> None:
    if "--rows" in arguments:
        place = arguments.index("--rows")
        with tempfile.TemporaryDirectory() as folder:
            named = write_file(Path(folder) / "delays.csv", int(arguments[place + 1]))
            measure([*named, *arguments[:place], *arguments[place + 2 :]])
    else:
        measure(arguments)


def measure(arguments: list[str]) -> None:
    marks: Marks = {"start": (began(), 0.0)}
    with Watcher() as watcher:
        note_stages(marks, watcher)
        code = run_command(["run", *OPTIONS, *arguments])
    if code:
        raise SystemExit(code)
    names, (times, used) = list(marks), map(list, zip(*marks.values(), strict=True))
    seconds, spent = (dict(zip(names, np.diff(each).tolist(), strict=False)) for each in (times, used))
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    roles = ("node", "board", "analyst")
    figures = {
        "seconds": seconds | {"whole": times[-1] - times[0]},
        "used": spent,
        "mebibytes": {role: watcher.of(role, "peak") for role in roles} | {"launcher": own.ru_maxrss / 1024},
        "processor": {role: watcher.of(role, "processor") / 1e3 for role in roles}
        | {"launcher": own.ru_utime + own.ru_stime - watcher.used, "others": others.ru_utime + others.ru_stime},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
