"""One reading of a record for the page: its summary, and beside it diagram, faults and table.

The same story is told while the run goes on and after it. All it keeps is bounded, except a pair of numbers a frame.
"""

from collections import Counter
from typing import Any

import numpy as np

from parley.emulator.record.records import Record
from parley.emulator.record.summary import RoundSummary, Summary
from parley.emulator.wire.messages import Event, Result, Setup
from parley.launch.report.diagram import Diagram
from parley.launch.report.table import Table
from parley.launch.report.words import cut, value_brief
from parley.launch.results.answer import statistic_name
from parley.protocols.registry import build

MOST_FAULTS = 500
MOST_POINTS = 160


class Story:
    """Hears records in order; `record` is what the page is drawn from."""

    def __init__(self, summary: Summary | None = None) -> None:
        self.summary = summary or Summary(build)
        self.diagram = Diagram(self.summary)
        self.table = Table()
        self._faults: list[dict[str, Any]] = []

    def take(self, record: Record) -> None:
        """Hear one record; TranscriptError if it holds no message."""
        self.summary.take(record)
        seconds = record.time - self.summary.began
        if isinstance(record.message, Event) and len(self._faults) < MOST_FAULTS:
            self._faults.append(_fault(record.message, seconds))
        self.diagram.take(record.sequence, seconds, record.sender, record.message)
        self.table.take(record.sequence, seconds, record.sender, record.message, len(record.frame))

    @property
    def problem(self) -> str:
        """Why the page cannot say everything; empty where it can."""
        unbuilt = "" if self.summary.setup is None else self.summary.unbuilt
        return cut(unbuilt or self.summary.uncounted)

    def record(self, latest: int | None = None) -> dict[str, Any]:
        """Plain data for the page; with `latest`, the table holds only so many of the last messages."""
        events: Counter[str] = Counter()
        for event, count in self.summary.faults.items():
            events[cut(event, 40)] += count
        return {
            "answer": self._answer(),
            "facts": self._facts(),
            "rounds": [self._round(each) for each in self.summary.rounds],
            "diagram": self.diagram.record(),
            "faults": {"rows": self._faults, "total": events.total(), "counts": dict(events)},
            "messages": self.table.record(latest),
            "problem": self.problem,
        }

    def _answer(self) -> dict[str, Any] | None:
        result, workload = self.summary.ending, getattr(self.summary.protocol, "workload", None)
        if not isinstance(result, Result):
            return None
        silent = result.details.get("silent_for_wallets")
        return {
            "bounds": None if workload is None else list(workload.bounds),
            "estimate": result.estimate,
            "low": result.low,
            "high": result.high,
            "predicted_rmse": result.predicted_rmse,
            **({"silent": silent} if isinstance(silent, int) and silent else {}),
        }

    def _facts(self) -> dict[str, Any]:
        summary = self.summary
        setup, claim = summary.setup, None if summary.protocol is None else summary.protocol.claim
        return {
            "protocol": None if setup is None else setup.protocol,
            "statistic": None if setup is None else _statistic(setup),
            "interaction": None if claim is None else claim.interaction,
            "trusts": None if claim is None else claim.trusts,
            "epsilon": None if setup is None else setup.epsilon,
            "delta": None if setup is None else setup.delta,
            "parameters": {} if setup is None else _parameters(setup),
            "users": summary.users or None,
            "replied": summary.replied,
            "nodes": len(summary.seats),
            "declared": None if setup is None else setup.rounds,
            "observed": summary.observed,
            "bytes_up": summary.bytes_up / summary.users if summary.users else None,
            "bytes_down": float(summary.bytes_down),
            "seconds": summary.seconds,
            "began": summary.began if summary.kinds else None,
            "records": summary.kinds.total(),
        }

    def _round(self, each: RoundSummary) -> dict[str, Any]:
        summary, step = self.summary, self.summary.step(each.number)
        due = summary.asked(each.number)
        if due is None and each.close is not None and not each.missing:
            due = each.close.replies
        return {
            "number": each.number,
            "name": "" if step is None else step.name,
            "opened": each.opened - summary.began,
            "seconds": each.seconds,
            "replies": each.replies,
            "due": due,
            "missing": each.missing,
            "frames": len(each.arrivals),
            "bytes_up": each.bytes_up,
            "bytes_down": each.bytes_down,
            "series": _series(each),
        }


def _series(each: RoundSummary) -> list[tuple[float, int]]:
    """Time and replies so far, thinned out to what a picture can show; first and last always stay."""
    if not each.arrivals:
        return []
    keep = np.unique(np.linspace(0, len(each.arrivals) - 1, MOST_POINTS).astype(np.int64))
    return [(round(time - each.opened, 6), replies) for time, replies in (each.arrivals[index] for index in keep)]


def _fault(event: Event, seconds: float) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 6),
        "round": event.round,
        "node": cut(event.node, 64),
        "event": cut(event.event, 40),
        "detail": cut(event.detail),
    }


def _statistic(setup: Setup) -> str | None:
    name = statistic_name(setup)
    return None if name is None else cut(name, 64)


def _parameters(setup: Setup) -> dict[str, str]:
    return {cut(name, 40): cut(value_brief(value)) for name, value in list(setup.parameters.items())[:24]}
