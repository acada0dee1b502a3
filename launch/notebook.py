"""What Python calls besides `Problem`: plan, sweep, audit and replay as objects that show themselves in a notebook.

Errors are told in Python's words: whoever wrote `ranges=...` is not told about `--range`.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numpy.typing import ArrayLike

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Trust
from parley.launch.results.display import html

if TYPE_CHECKING:
    # Most commands need neither, and their tests of distributions take scipy.
    from parley.emulator.audit.report import Report
    from parley.emulator.record.replay import Replay, Role

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
# Flags that are called otherwise in Python.
NAMES = {"range": "ranges"}
_TERM = re.compile(
    r"--(?P<flag>[a-z][a-z0-9-]*)"
    r"(?: (?P<column>[^\s=,;]+)=(?P<values>[^\s;]*[^\s;.,])(?P<more>,\.\.\.)?"
    r"| (?P<value>-?[0-9][0-9.e+-]*\b|drop|as-category|nan|inf))?"
)


def python_words(text: str) -> str:
    """An error as Python says it: `--range age=18:90` is `ranges={'age': (18, 90)}`, `--epsilon 0` is `epsilon=0`."""

    def said(found: re.Match[str]) -> str:
        flag = found["flag"].replace("-", "_")
        name = NAMES.get(flag, flag)
        if found["column"] is not None:
            values = found["values"].replace(":", ", ") if flag == "range" else repr(found["values"].split(","))
            values = f"{values[:-1]}, ...]" if found["more"] else values
            return f"{name}={{{found['column']!r}: {f'({values})' if flag == 'range' else values}}}"
        if found["value"] is not None:
            quoted = found["value"] in ("drop", "as-category")
            return f"{name}={found['value']!r}" if quoted else f"{name}={found['value']}"
        return name

    return _TERM.sub(said, text)


def in_python_words(function: Callable[Arguments, Returned], name: str | None = None) -> Callable[Arguments, Returned]:
    """The same function, whose BadInput names arguments instead of flags; `name` is what Python calls it."""

    @functools.wraps(function)
    def called(*arguments: Arguments.args, **named: Arguments.kwargs) -> Returned:
        try:
            return function(*arguments, **named)
        except BadInput as error:
            text = python_words(str(error))
            if text == str(error):
                raise
            raise BadInput(text) from error

    called.__name__ = called.__qualname__ = name or function.__name__
    return called


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What the record of a run proves, check by check."""

    report: "Report"
    seconds: float

    @property
    def ok(self) -> bool:
        """No check failed, and integrity, rounds and privacy were shown."""
        return self.report.ok

    def __getitem__(self, check: str) -> dict[str, Any]:
        """Verdict and evidence of a check, such as `privacy`."""
        return self.report.verdicts[check].record()

    def record(self) -> dict[str, Any]:
        """Plain values: what `parley audit --json` prints."""
        return {**self.report.record(), "seconds": self.seconds}

    def __str__(self) -> str:
        from parley.launch.commands.audit import describe

        return describe(self.report, self.ok, self.seconds)

    def _repr_html_(self) -> str:
        from parley.launch.commands.audit import details

        rows = details(self.report)
        return html.table(("check", "verdict", "evidence"), rows, "good" if self.ok else "NOT GOOD")


@in_python_words
def audit(
    run: Any = Path("runs/latest"),
    *,
    witness: str | Path | None = None,
    trust: str | Path | None = None,
    sample: int | None = None,
    trials: int | None = None,
) -> Audit:
    """What the record of a run proves. `run` is an answer of `Problem.run`, a folder, a name in runs/ or a transcript.

    `sample`: look at so many users chosen at random. `trials`: bound epsilon from below with so many conversations.
    """
    import time

    from parley.emulator.audit.report import audit as audit_transcript
    from parley.launch.results.run_files import find_run

    began = time.perf_counter()
    files = find_run(_recorded(run), _path(witness), _path(trust))
    report = audit_transcript(
        files.transcript,
        files.build,
        witness=files.load_witness(),
        keys=files.load_keys(),
        sample=sample,
        trials=trials,
    )
    return Audit(report=report, seconds=time.perf_counter() - began)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """Whether a recorded conversation came out the same, byte for byte."""

    outcome: "Replay"

    @property
    def identical(self) -> bool:
        return self.outcome.identical

    def record(self) -> dict[str, Any]:
        """Plain values: what `parley replay --json` prints."""
        return self.outcome.record()

    def __str__(self) -> str:
        from parley.launch.commands.replay import describe

        return describe(self.outcome)

    def _repr_html_(self) -> str:
        return html.facts({"replay": str(self)})


@in_python_words
def replay(
    run: Any = Path("runs/latest"), *, role: "Role" = "analyst", witness: str | Path | None = None, live: bool = False
) -> Replayed:
    """A recorded conversation once more: the analyst from the record, the users from the witness.

    `live` sends the record through real sockets to a fresh analyst process.
    """
    from parley.launch.commands.replay import replay_recorded
    from parley.launch.results.run_files import find_run

    files = find_run(_recorded(run), _path(witness))
    return Replayed(outcome=replay_recorded(files, files.listen(), role, "fast" if live else None))


@dataclass(frozen=True, kw_only=True)
class Sweep(Sequence[dict[str, Any]]):
    """Measured against predicted errors: a record for each protocol, number of users and epsilon."""

    rows: tuple[dict[str, Any], ...]

    def __getitem__(self, place: Any) -> Any:
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def record(self) -> list[dict[str, Any]]:
        """Plain values: what `parley sweep --json` prints."""
        return list(self.rows)

    def _cells(self) -> list[list[str]]:
        return [[f"{each:.4g}" if isinstance(each, float) else str(each) for each in row.values()] for row in self.rows]

    def __str__(self) -> str:
        return "\n".join("  ".join(row) for row in ([*self.rows[0]], *self._cells()))

    def _repr_html_(self) -> str:
        return html.table(list(self.rows[0]), self._cells())

    def plot(self, path: str | Path) -> None:
        """Draw measured RMSE against users (.svg, .png, .pdf)."""
        from parley.launch.commands.sweep import draw_rows
        from parley.launch.results.display.plot import check_plot

        check_plot(Path(path))
        draw_rows(Path(path), list(self.rows))


@in_python_words
def sweep(
    data: Any = None,
    statistic: str | None = None,
    *,
    epsilon: float | Sequence[float],
    users: int | Sequence[int] | None = None,
    protocol: str = "all",
    trials: int = 100,
    exact: bool = False,
    processes: int | None = None,
    seed: int | None = None,
    **options: Any,
) -> Sweep:
    """Measure protocols in memory; `users` and `epsilon` may be several. `options` are those of `problem`."""
    from parley.launch.commands.sweep import make_cases, measure
    from parley.launch.problem import ProblemFlags
    from parley.launch.results.sweeps import batches, spread, trial

    if trials < 2:
        raise BadInput(f"--trials {trials} says nothing about a spread; give at least 2")
    crowds = users if users is None or isinstance(users, Sequence) else (users,)
    flags: Any = ProblemFlags(
        data=data,
        statistic=statistic,
        epsilon=epsilon if isinstance(epsilon, Sequence) else (epsilon,),  # type: ignore[arg-type]
        users=crowds,  # type: ignore[arg-type]
        protocol=protocol,
        **options,
    )
    first = 0 if seed is None else seed
    cases = make_cases(flags, first)
    work = [
        batch
        for number, case in enumerate(cases)
        for batch in batches(number, case.protocol, case.inputs, case.truth, trials=trials, seed=first, exact=exact)
    ]
    return Sweep(rows=tuple(measure(cases, spread(trial, work, processes or 1), trials, quiet=True)))


@in_python_words
def plan(
    statistic: str | None = None,
    *,
    epsilon: float,
    users: int,
    levels: int | str | Sequence[int] | None = None,
    bins: str | Sequence[str] = (),
    kernel: str | Path | ArrayLike | None = None,
    protocol: str = "all",
    like: ArrayLike | None = None,
    trust: Trust = "nobody",
    delta: float | None = None,
    protocol_file: str | Path | None = None,
) -> Any:
    """Predict every protocol's error, bytes and rounds for so many users; no data are needed."""
    import numpy as np

    from parley.launch.api import asked_for, check_promises
    from parley.launch.results.plans import make_plan

    check_promises(epsilon, delta)
    question, chosen, _ = asked_for(statistic, levels, bins, (), (), (), kernel=kernel, protocol_file=protocol_file)
    return make_plan(
        question,
        epsilon=epsilon,
        users=users,
        protocol=protocol,
        like=None if like is None else np.asarray(like, dtype=np.float64),
        trust=trust,
        delta=delta,
        bins=chosen,
    )


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _recorded(run: Any) -> Path:
    """Where a run is on record."""
    folder = getattr(run, "folder", run)
    if folder is None:
        raise BadInput("this answer comes from memory and left no record; use run() instead of simulate()")
    return Path(folder)
