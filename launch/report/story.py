"""One reading of a record for the page: its summary, and beside it diagram, faults and table.

The same story is told while the run goes on and after it. All it keeps is bounded, except a pair of numbers a frame.
"""

from collections import Counter, deque
from typing import Any

import numpy as np

from parley.emulator.record.records import Record
from parley.emulator.record.summary import RoundSummary, Summary
from parley.emulator.wire.messages import Event, Message, Ready, Replies, Result
from parley.launch.report.diagram import Diagram
from parley.launch.report.words import cut, headline, row, value_brief
from parley.launch.results.answer import statistic_name
from parley.launch.results.display.wording import STATISTICS
from parley.launch.results.hiding import hidden_in, measured
from parley.launch.results.meaning import inside
from parley.protocols.registry import build

MOST_FAULTS = 500
MOST_POINTS = 160
# Messages of a table that are too many for one page: the first and the last.
FIRST, LAST = 1500, 500
# User numbers that are listed one by one, so that the filter by user is exact.
MOST_LISTED = 20_000
Row = dict[str, Any]


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
            event = record.message
            detail = {"node": cut(event.node, 64), "event": cut(event.event, 40), "detail": cut(event.detail)}
            self._faults.append({"seconds": round(seconds, 6), "round": event.round, **detail})
        self.diagram.take(record.sequence, seconds, record.sender, record.message)
        self.table.take(record, seconds)

    def record(self, latest: int | None = None) -> dict[str, Any]:
        """Plain data for the page; with `latest`, the table holds only so many of the last messages."""
        events: Counter[str] = Counter()
        # Why the page cannot say everything; empty where it can.
        unbuilt = "" if self.summary.setup is None else self.summary.unbuilt
        for event, count in self.summary.faults.items():
            events[cut(event, 40)] += count
        return {
            "answer": self._answer(),
            "facts": self._facts(),
            "rounds": [self._round(each) for each in self.summary.rounds],
            "diagram": self.diagram.record(),
            "faults": {"rows": self._faults, "total": events.total(), "counts": dict(events)},
            "messages": self.table.record(latest),
            "problem": cut(unbuilt or self.summary.uncounted),
        }

    def _answer(self) -> dict[str, Any] | None:
        result, workload = self.summary.ending, getattr(self.summary.protocol, "workload", None)
        if not isinstance(result, Result):
            return None
        silent = result.details.get("silent_for_wallets")
        hides = hidden_in(self.summary)
        ends = hides.pop("interval95", (result.low, result.high))
        low, high = inside(ends, None if workload is None else workload.bounds)
        return {
            "bounds": None if workload is None else list(workload.bounds),
            "estimate": result.estimate,
            "low": low,
            "high": high,
            "predicted_rmse": result.predicted_rmse,
            "measured": cut(measured(self.summary)),
            **hides,
            **({"silent": silent} if isinstance(silent, int) and silent else {}),
        }

    def _facts(self) -> dict[str, Any]:
        summary = self.summary
        setup, claim = summary.setup, None if summary.protocol is None else summary.protocol.claim
        name = None if setup is None else statistic_name(setup)
        parameters = [] if setup is None else list(setup.parameters.items())[:24]
        return {
            "protocol": getattr(setup, "protocol", None),
            "statistic": None if name is None else cut(name, 64),
            "measured": None if name is None else cut(STATISTICS.get(name, name), 64),
            "interaction": getattr(claim, "interaction", None),
            "trusts": getattr(claim, "trusts", None),
            "epsilon": getattr(setup, "epsilon", None),
            "delta": getattr(setup, "delta", None),
            "parameters": {cut(each, 40): cut(value_brief(value)) for each, value in parameters},
            "users": summary.users or None,
            "replied": summary.replied,
            "nodes": len(summary.seats),
            "declared": getattr(setup, "rounds", None),
            "observed": summary.observed,
            "bytes_up": summary.bytes_up / summary.users if summary.users else None,
            "bytes_down": float(summary.bytes_down),
            "seconds": summary.seconds,
            "began": summary.began if summary.kinds else None,
            "records": summary.kinds.total(),
        }

    def _round(self, each: RoundSummary) -> dict[str, Any]:
        summary, step = self.summary, self.summary.step(each.number)
        due, arrivals = summary.asked(each.number), each.arrivals
        # Time and replies so far, thinned out to what a picture can show; first and last always stay.
        keep = np.unique(np.linspace(0, len(arrivals) - 1, MOST_POINTS).astype(np.int64)) if arrivals else ()
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
            "series": [(round(time - each.opened, 6), replies) for time, replies in (arrivals[at] for at in keep)],
        }


class Table:
    """A row a record."""

    def __init__(self) -> None:
        self._first: list[Row] = []
        self._last: deque[Row] = deque(maxlen=LAST)
        self._listed = 0
        self.total = 0

    def take(self, record: Record, seconds: float) -> None:
        message = record.message
        self.total += 1
        shown = {**row(record), "seconds": round(seconds, 6), "what": headline(message), **self._users(message)}
        if isinstance(message, Event):
            shown["node"] = cut(message.node, 64)
        (self._first if len(self._first) < FIRST else self._last).append(shown)

    def _users(self, message: Message) -> Row:
        """Who a frame speaks for: a range, or all numbers where they have gaps."""
        if isinstance(message, Ready) and message.users:
            return {"first": message.first, "last": message.first + message.users - 1}
        if not isinstance(message, Replies) or not len(message.users):
            return {}
        users = message.users
        span = {"first": int(users[0]), "last": int(users[-1])}
        if span["last"] - span["first"] + 1 == len(users):
            return span
        if self._listed + len(users) > MOST_LISTED:
            return {**span, "gaps": True}
        self._listed += len(users)
        return {**span, "users": np.diff(users, prepend=0).tolist()}

    def record(self, latest: int | None = None) -> dict[str, Any]:
        """For the page; with `latest`, only so many of the last rows."""
        rows = [*self._first, *self._last]
        return {"rows": rows if latest is None else rows[-latest:], "total": self.total}
