"""The replies of a run as a table: one row per reply, for people who live in notebooks."""

import csv
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import layout
from parley.emulator.record.records import Record
from parley.emulator.wire.messages import Replies
from parley.launch.results.display.printable import printable, printable_json

COMMON = ("record", "time_ns", "node", "round", "user")
PREFIX = "reply."
Layout = tuple[str, tuple[int, ...]]


class Source(Protocol):
    """Whatever gives the replies of a record, as often as it is asked: a conversation, or what is whole of one."""

    def replies(self) -> Iterator[tuple[Record, Replies]]:
        """The replies in the order of the record."""


def column_name(name: str) -> str:
    """What a column of the replies is called in the table.

    Its own name, unless that is one of the table's own columns or begins with `reply.`: then `reply.` stands before
    it. So no two columns are ever called the same, whatever a protocol or a forger calls them.
    """
    return PREFIX + name if name in COMMON or name.startswith(PREFIX) else name


def write_json_lines(source: Source, file: IO[str]) -> int:
    """One JSON object a line; the number of lines."""
    rows = 0
    for record, replies in source.replies():
        columns = {column_name(name): column.tolist() for name, column in replies.columns.items()}
        for place, user in enumerate(replies.users.tolist()):
            common = zip(COMMON, (record.sequence, record.time_ns, replies.node, replies.round, user), strict=True)
            row = {**dict(common), **{name: column[place] for name, column in columns.items()}}
            file.write(printable_json(row) + "\n")
            rows += 1
    return rows


def write_csv(source: Source, file: IO[str]) -> int:
    """A line of names and one line per reply; lists of numbers as JSON, nothing where a round lacks the column."""
    layouts, _, last = _survey(source)
    table, rows = csv.writer(file), 0
    table.writerow([*COMMON, *(printable(column_name(name)) for name in layouts)])
    for record, replies in _until(source, last):
        columns = [replies.columns[name].tolist() if name in replies.columns else None for name in layouts]
        for place, user in enumerate(replies.users.tolist()):
            cells = ["" if column is None else column[place] for column in columns]
            common = (record.sequence, record.time_ns, printable(replies.node), replies.round, user)
            table.writerow([*common, *(printable_json(cell) if isinstance(cell, list) else cell for cell in cells)])
            rows += 1
    return rows


def write_parquet(source: Source, path: Path) -> int:
    """One Parquet file with a column for every column of any round, null where a round does not have it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput("Parquet needs pyarrow: install it (pip install pyarrow), or use --format jsonl") from error
    layouts, largest_round, last = _survey(source)
    types = {name: _nested(pyarrow, np.empty((0, *shape), kind)).type for name, (kind, shape) in layouts.items()}
    # Four bytes are enough for the rounds of any real run; a record may name a round of up to 2^62.
    round_type = pyarrow.int32() if largest_round < 2**31 else pyarrow.int64()
    schema = pyarrow.schema(
        [
            ("record", pyarrow.int64()),
            ("time_ns", pyarrow.int64()),
            ("node", pyarrow.string()),
            ("round", round_type),
            ("user", pyarrow.int64()),
            *((column_name(name), kind) for name, kind in types.items()),
        ]
    )
    rows = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for record, replies in _until(source, last):
            count = len(replies.users)
            common: list[Any] = [
                np.full(count, record.sequence, np.int64),
                np.full(count, record.time_ns, np.int64),
                pyarrow.array([replies.node] * count, pyarrow.string()),
                pyarrow.array(np.full(count, replies.round, np.int64)).cast(round_type),
                replies.users,
            ]
            columns = [
                _nested(pyarrow, replies.columns[name]) if name in replies.columns else pyarrow.nulls(count, kind)
                for name, kind in types.items()
            ]
            writer.write_table(pyarrow.table([*common, *columns], schema=schema))
            rows += count
    return rows


def _survey(source: Source) -> tuple[dict[str, Layout], int, int]:
    """A first reading: every column of the replies, the largest round, and the last record that was read.

    A name that means two things in two rounds cannot be one column.
    """
    layouts, largest_round, last = dict[str, Layout](), 0, -1
    for record, replies in source.replies():
        for name, kind, shape in layout(replies.columns):
            if layouts.setdefault(name, (kind, shape)) != (kind, shape):
                raise BadInput(f"the column {printable(name)} has two types in this run; use --format jsonl")
        largest_round, last = max(largest_round, replies.round), record.sequence
    return layouts, largest_round, last


def _until(source: Source, last: int) -> Iterator[tuple[Record, Replies]]:
    """A run that still goes on may have said more since its survey, in columns that the file does not have."""
    return takewhile(lambda each: each[0].sequence <= last, source.replies())


def _nested(pyarrow: Any, column: NDArray[Any]) -> Any:
    """A column as Arrow has it: every axis after the first is a level of lists.

    A frame has far fewer than 2^31 values, so that the offsets of the lists fit into four bytes.
    """
    array = pyarrow.array(column.reshape(-1))
    for axis in range(column.ndim - 1, 0, -1):
        lists = int(np.prod(column.shape[:axis], dtype=np.int64))
        offsets = np.arange(lists + 1, dtype=np.int64) * column.shape[axis]
        array = pyarrow.ListArray.from_arrays(offsets.astype(np.int32), array)
    return array
