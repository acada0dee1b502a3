"""What a cell of a column says: a number, a moment, a category, yes or no, or nothing at all.

Files spell these in many ways. Here, and nowhere else, is decided what a spelling means.
"""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats

SHOWN_ROWS = 5
# Spellings of "no value", in lower case. A declared category of the same name goes before them.
ABSENT = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "nat", "<na>"})
FALSE = frozenset({"0", "false", "no", "f", "n"})
TRUE = frozenset({"1", "true", "yes", "t", "y"})
SECONDS_A_DAY = 86400


def as_text(value: Any) -> str | None:
    """How categories are compared: 1, 1.0 and "1" are the same; None, NaN and "" are missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def is_absent(value: Any) -> bool:
    """Whether a cell says that there is no value."""
    text = as_text(value)
    return text is None or text.lower() in ABSENT


def truth_value(text: str) -> bool | None:
    """What yes, no, true, false, 1 and 0 mean; None for other words."""
    word = text.lower()
    return True if word in TRUE else False if word in FALSE else None


def numbers(name: str, column: NDArray[Any], row: int = 1, *, dates: bool = False) -> Floats:
    """A column as numbers, NaN where there is no value; dates as seconds since 1970 in UTC. `row` counts its first."""
    kind = column.dtype.kind
    if kind == "M" and dates:
        moments = column.astype("datetime64[us]")
        return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    if kind in "biuf" and not dates:
        return column.astype(np.float64)
    read = _Reader(name, dates)
    values = column.tolist()
    for place, value in enumerate(values):
        try:
            values[place] = read[value]
        except (TypeError, ValueError, OverflowError):
            raise BadInput(f"row {row + place} of {name} holds {value!r:.80}, {read.instead(value)}") from None
    return np.array(values, dtype=np.float64)


class _Reader(dict[Any, float]):
    """Cell -> number, each spelling read once."""

    def __init__(self, name: str, dates: bool) -> None:
        self._name, self._dates = name, dates

    def __missing__(self, value: Any) -> float:
        if is_absent(value):
            found = math.nan
        elif self._dates:
            found = moment(value)
        elif isinstance(value, date):
            raise ValueError("a date is not a number")
        else:
            found = float(value)
        self[value] = found
        return found

    def instead(self, value: Any) -> str:
        """Why a cell cannot be read, and what to declare."""
        if self._dates:
            return "which is not a date such as 2024-02-29 or 2024-02-29T06:30"
        if isinstance(value, date) or _is_moment(value):
            return f"which is a date; declare --range {self._name}=2024-01-01:2024-12-31"
        if isinstance(value, str) and _is_number(value.replace(",", "")):
            return "which is not a number; write it with a point and no comma"
        if isinstance(value, str):
            return f"which is not a number; declare text with --categories {self._name}=A,B,..."
        return "which is not a number"


def moment(value: Any) -> float:
    """Seconds since 1970 of a date or a time; without a zone, in UTC. ValueError if it is neither."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value.strip())
    if not isinstance(value, date):
        raise ValueError("not a date")
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    zoned = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    since: timedelta = zoned - datetime(1970, 1, 1, tzinfo=UTC)
    return since / timedelta(seconds=1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_moment(value: Any) -> bool:
    try:
        moment(value)
    except ValueError:
        return False
    return True


def read_ends(text: str) -> tuple[float, float, bool] | None:
    """The two ends of a range and whether they are dates: `0:120`, `2024-01-01:2024-12-31`, or times; else None.

    A day as the upper end belongs to the range: the year above has 366 days.
    """
    for place, letter in enumerate(text):
        if letter != ":":
            continue
        low, high = text[:place].strip(), text[place + 1 :].strip()
        try:
            return float(low), float(high), False
        except ValueError:
            pass
        try:
            whole_day = SECONDS_A_DAY if len(high) <= len("2024-12-31") else 0
            return moment(low), moment(high) + whole_day, True
        except ValueError:
            pass
    return None


def refuse_missing(name: str, rows: Sequence[int]) -> None:
    """BadInput that names the first rows without a value, if there are any."""
    if len(rows):
        shown = ", ".join(str(row) for row in rows[:SHOWN_ROWS])
        more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
        raise BadInput(
            f"{name} has no value in row{'s' if len(rows) > 1 else ''} {shown}{more}; leave such rows out with "
            "--missing drop, or count them as a category with --missing as-category"
        )
