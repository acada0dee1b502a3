"""The outcome of a run as an object: reads well in a terminal and a notebook, gives its numbers as plain data."""

import json
import tempfile
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from parley.emulator.errors import BadInput, LocalProtocolError, TranscriptError
from parley.emulator.record.summary import Summary
from parley.emulator.wire.messages import Result, Setup
from parley.launch.results.display import html
from parley.launch.results.display.wording import shape_of
from parley.launch.results.hiding import FOUND, hidden_in, measured
from parley.launch.results.meaning import advice, advice_on_bins, inside
from parley.launch.settings import release
from parley.protocols.workloads.lipschitz import Lipschitz

# The fields of a result record, in this order.
RECORD = (
    *("protocol", "title", "statistic", "users", "replied", "epsilon", "delta", "rounds", "estimate", "predicted_rmse"),
    *("interval95", "interval95_noise", "hidden", "hidden_error", "possible", "measured", "truth", "truth_unbinned"),
    *("error", "bytes_up", "bytes_down", "seconds", "seed", "version", "question", "source"),
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A private estimate, how far off it may be, and what it cost. `truth` is known to emulations only."""

    estimate: float
    interval95: tuple[float, float]
    predicted_rmse: float
    statistic: str | None
    protocol: str
    epsilon: float
    delta: float
    users: int
    replied: int
    rounds_declared: int
    rounds_observed: int
    bytes_up: float
    bytes_down: float
    seconds: float
    truth: float | None = None
    seed: int | None = None
    version: str = ""
    folder: Path | None = None
    silent: int = 0
    # What the statistic can be at all; None where nobody knows.
    possible: tuple[float, float] | None = None
    # What was measured, in words, with the number of bins.
    measured: str = ""
    # The statistic of the columns as they are, without bins; emulations only. `truth` is that of the bins.
    truth_unbinned: float | None = None
    # What bins still hide and the standard error of that, both part of `interval95`; None where nobody estimated it.
    hidden: float | None = None
    hidden_error: float | None = None
    interval95_noise: tuple[float, float] | None = None
    title: str = ""
    # What the header of the record says: title, levels, columns.
    question: Mapping[str, Any] | None = None
    # Where the data came from: the file, and what was clipped or left out; emulations only.
    source: Mapping[str, Any] | None = None
    # What a person waited, from the command's first moment to its last; `seconds` is the conversation alone.
    command_seconds: float | None = field(default=None, compare=False)
    # Whether the conversation's seconds are those of virtual time.
    virtual: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, summary: Summary, **known: Any) -> Self:
        """From the record of a run alone; `known` is what only an emulation knows.

        LocalProtocolError if the run did not get so far, TranscriptError if its users cannot be counted.
        """
        setup, result, replied = summary.setup, summary.ending, summary.replied
        if setup is None or not isinstance(result, Result):
            raise LocalProtocolError("the transcript holds no result: its run did not complete")
        if replied is None:
            raise TranscriptError(summary.unbuilt or summary.uncounted)
        workload = getattr(summary.protocol, "workload", None)
        possible = None if workload is None else workload.bounds
        found = {
            "estimate": result.estimate,
            "interval95": (result.low, result.high),
            "possible": possible,
            "predicted_rmse": result.predicted_rmse,
            "measured": measured(summary),
            "interval95_noise": (result.low, result.high),
            **hidden_in(summary),
            "statistic": statistic_name(setup),
            "protocol": setup.protocol,
            "epsilon": setup.epsilon,
            "delta": setup.delta,
            "users": summary.users,
            "replied": replied,
            "rounds_declared": setup.rounds,
            "rounds_observed": summary.observed,
            "bytes_up": summary.bytes_up / summary.users,
            "bytes_down": float(summary.bytes_down),
            "seconds": summary.seconds,
            "silent": result.details.get("silent_for_wallets", 0),
            "version": release(),
        }
        for name in ("interval95", "interval95_noise"):
            found[name] = inside(found[name], possible)
        return cls(**{**found, **known})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The answer of a run that is over, from its result record."""
        try:
            record = json.loads((Path(folder) / "result.json").read_text())
            plain = {name: record[name] for name in record if name in cls.__dataclass_fields__}
            plain.setdefault("silent", record.get("silent_for_wallets", 0))
            for name in ("interval95", "possible", "interval95_noise"):
                if record.get(name) is not None:
                    plain[name] = (record[name][0], record[name][1])
            plain["measured"] = record.get("measured") or ""
            for each in ("declared", "observed"):
                plain[f"rounds_{each}"] = record["rounds"][each]
            return cls(**{**plain, "folder": Path(folder)})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{folder} holds no result of a finished run: {error}") from error

    @property
    def error(self) -> float | None:
        """How far off the estimate is; emulations only."""
        return None if self.truth is None else self.estimate - self.truth

    @property
    def advice(self) -> str | None:
        """What would help where the interval says little, or where bins make most of it."""
        wide = advice_on_bins(self.interval95, self.interval95_noise, found=self.measured.endswith(FOUND))
        if wide is not None:
            return wide
        rmse, users = self.predicted_rmse, self.users
        return advice(self.interval95, self.possible, rmse=rmse, users=users, epsilon=self.epsilon)

    def record(self) -> dict[str, Any]:
        """The result record: plain values, stable names."""
        own = {
            "rounds": {"declared": self.rounds_declared, "observed": self.rounds_observed},
            "interval95": list(self.interval95),
            "possible": None if self.possible is None else list(self.possible),
            "interval95_noise": None if self.interval95_noise is None else list(self.interval95_noise),
        }
        silent = {"silent_for_wallets": self.silent} if self.silent else {}
        return {name: own.get(name) or getattr(self, name) for name in RECORD} | silent

    def replies(self) -> Any:
        """Every recorded reply as an Arrow table, one row per reply; `.to_pandas()` and polars take it from there."""
        if self.folder is None:
            raise BadInput("this answer comes from memory and left no record; use run() instead of simulate()")
        import pyarrow.parquet

        from parley.launch.results.export import write_parquet
        from parley.launch.results.run_files import find_run

        with tempfile.TemporaryDirectory() as place:
            write_parquet(find_run(self.folder).listen(), Path(place) / "replies.parquet")
            return pyarrow.parquet.read_table(Path(place) / "replies.parquet")

    @cached_property
    def lines(self) -> dict[str, str]:
        """What people are told, label by label."""
        low, high = self.interval95
        lines: dict[str, str] = {}
        if self.question and self.measured.endswith(FOUND):
            # The question has the levels that users agreed to; its bins were found in the run.
            lines |= {"question": self.title, "measured": self.measured}
        elif self.question:
            lines["question"] = f"{self.title}, {shape_of(self.question['levels'], self.question.get('columns', ()))}"
        lines["estimate"] = f"{self.estimate:.6g}   95% interval [{low:.6g}, {high:.6g}]"
        if self.hidden is not None and self.hidden_error is not None and self.interval95_noise is not None:
            noise = "[{:.6g}, {:.6g}]".format(*self.interval95_noise)
            lines["bins"] = f"hide about {self.hidden:+.2g} +- {self.hidden_error:.2g}; noise alone {noise}"
        if self.advice is not None:
            lines["note"] = self.advice
        if self.truth is not None:
            lines["truth"] = f"{self.truth:.6g}   error {self.error:+.3g} (predicted {self.predicted_rmse:.3g})"
        if self.truth_unbinned is not None:
            lines["unbinned"] = f"{self.truth_unbinned:.6g}   the truth without bins"
        lines |= {
            "privacy": f"epsilon {self.epsilon:g}, delta {self.delta:g}, {self.protocol}",
            "rounds": f"{self.rounds_declared} declared, {self.rounds_observed} observed",
            "replied": f"{self.replied} of {self.users} users",
            "bytes": f"per user: {self.bytes_up:.1f} B sent, {self.bytes_down:,.0f} B received",
            "seconds": f"{self.seconds:.2f}",
        }
        if self.command_seconds is not None:
            took = "in virtual time the conversation took" if self.virtual else "of which the conversation took"
            lines["seconds"] = f"{self.command_seconds:.2f}, {took} {self.seconds:.2f}"
        if self.folder is not None:
            lines["files"] = _short(self.folder)
            lines["again"] = f"parley replay {_short(self.folder)}"
        return lines

    def __str__(self) -> str:
        below = "\n" + " " * 10
        # Only these hold words that a terminal of 80 columns would break inside.
        told = {
            label: below.join(textwrap.wrap(text, 70)) if label in ("question", "measured", "note") else text
            for label, text in self.lines.items()
        }
        return "\n".join(f"{label:<9} {text}" for label, text in told.items())

    def _repr_html_(self) -> str:
        report = "" if self.folder is None else html.page(self.folder / "report.html", "The report of this run")
        return html.facts(self.lines, self.title or self.statistic or self.protocol) + report


def statistic_name(setup: Setup) -> str | None:
    """What the protocol's parameters say is estimated."""
    if isinstance(named := setup.parameters.get("statistic"), str):
        return named
    workload = setup.parameters.get("workload")
    return workload_name(workload) if isinstance(workload, dict) else None


def workload_name(workload: Mapping[str, Any]) -> str | None:
    """What the parameters of a workload say is estimated."""
    name, function = workload.get("statistic"), workload.get("function")
    # A Lipschitz loss is called by its distance, where it has one with a name.
    if name == Lipschitz.name and isinstance(function, str):
        return function
    return name if isinstance(name, str) else None


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
