"""The replies of a run as a table: one row a reply, for people who live in notebooks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from emulator.audit.conversation import Conversation
from emulator.differences import layout
from emulator.errors import BadInput
from emulator.messages import Replies
from emulator.records import Record

COMMON = ("record", "time_ns", "node", "round", "user")


def write_json_lines(conversation: Conversation, file: IO[str]) -> int:
    """One JSON object a line; the number of lines."""
    rows = 0
    for record, replies in conversation.replies():
        for row in _rows(record, replies):
            file.write(json.dumps(row) + "\n")
            rows += 1
    return rows


def _rows(record: Record, replies: Replies) -> Iterator[dict[str, Any]]:
    columns = {name: column.tolist() for name, column in replies.columns.items()}
    for place, user in enumerate(replies.users.tolist()):
        common = dict(zip(COMMON, (record.sequence, record.time_ns, replies.node, replies.round, user), strict=True))
        yield {**common, **{name: column[place] for name, column in columns.items()}}


def write_parquet(conversation: Conversation, path: Path) -> int:
    """One Parquet file with a column for every column of any round, null where a round does not have it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise BadInput("Parquet needs pyarrow: install it (pip install pyarrow), or use --format jsonl") from error
    layouts = _layouts(conversation)
    types = {name: _arrow_type(pyarrow, *each) for name, each in layouts.items()}
    schema = pyarrow.schema(
        [
            ("record", pyarrow.int64()),
            ("time_ns", pyarrow.int64()),
            ("node", pyarrow.string()),
            ("round", pyarrow.int32()),
            ("user", pyarrow.int64()),
            *types.items(),
        ]
    )
    rows = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for record, replies in conversation.replies():
            writer.write_table(_table(pyarrow, schema, types, record, replies))
            rows += len(replies.users)
    return rows


def _table(pyarrow: Any, schema: Any, types: dict[str, Any], record: Record, replies: Replies) -> Any:
    count = len(replies.users)
    common: list[Any] = [
        np.full(count, record.sequence),
        np.full(count, record.time_ns),
        pyarrow.array([replies.node] * count, pyarrow.string()),
        np.full(count, replies.round, np.int32),
        replies.users,
    ]
    columns = [
        pyarrow.array(list(replies.columns[name]) if replies.columns[name].ndim > 1 else replies.columns[name], kind)
        if name in replies.columns
        else pyarrow.nulls(count, kind)
        for name, kind in types.items()
    ]
    return pyarrow.table([*common, *columns], schema=schema)


def _layouts(conversation: Conversation) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Every column there is; a name that means two things in two rounds cannot be one column."""
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for _, replies in conversation.replies():
        for name, each in layout(replies).items():
            if found.setdefault(name, each) != each or name in COMMON:
                raise BadInput(f"the column {name} has two types in this run; use --format jsonl")
    return found


def _arrow_type(pyarrow: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    kind = pyarrow.from_numpy_dtype(np.dtype(dtype))
    for _ in shape:
        kind = pyarrow.list_(kind)
    return kind
