"""Private columns from a file (CSV, TSV, Parquet) or a data frame (pandas, polars, Arrow, ...), as inputs.

Files are read in batches. Of each batch only its inputs stay, and the values that the truth without bins is made of.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs
from parley.emulator.randomizer import Integers
from parley.protocols.workloads.choice import Missing
from parley.protocols.workloads.domain import Domain, nearest
from parley.protocols.workloads.values import refuse_missing

Columns = dict[str, NDArray[Any]]
SEPARATORS = {".csv": ",", ".tsv": "\t"}
BATCH_ROWS = 1 << 16
# A batch of a text file, in bytes: small, because Arrow keeps the memory of several; and for rows that are longer.
BLOCK_BYTES, LONG_BLOCK_BYTES = 1 << 16, 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Encoded:
    """The inputs of all rows that count, and what had to be done to the others."""

    def __init__(
        self, domain: Domain, batches: Iterable[Columns], missing: Missing, most: Callable[[], int], keep: bool
    ) -> None:
        """`most`: how many rows there are at most; `keep`: keep the values too, from before they were put into bins.

        What is as long as the data is made once: what grows or is joined would be in memory twice.
        """
        values: dict[str, NDArray[np.float64]] = {}
        clipped: dict[str, int] = defaultdict(int)
        absent: dict[str, list[Integers]] = defaultdict(list)
        # In as few bytes as the largest input needs.
        inputs = np.zeros(0, np.min_scalar_type(domain.size - 1))
        self.rows = filled = 0
        for columns in batches:
            found = domain.read(columns, self.rows + 1)
            for name, count in found.clipped.items():
                clipped[name] += count
            for name, rows in found.missing.items():
                absent[name].append(rows)
            kept = np.ones(len(found.indices), dtype=bool)
            for rows in found.missing.values():
                kept[rows - self.rows - 1] = False
            if not self.rows:
                length = most()
                inputs = np.empty(length, inputs.dtype)
                values = {name: np.empty(length) for name in found.values} if keep else {}
            self.rows += len(found.indices)
            new = slice(filled, filled := filled + int(np.count_nonzero(kept)))
            inputs[new] = found.indices[kept]
            for name, column in values.items():
                column[new] = found.values[name][kept]
        if missing != "drop":
            for name, several in absent.items():
                refuse_missing(name, np.concatenate(several).tolist())
        self.inputs: Inputs = inputs[:filled]
        self.values = {name: column[:filled] for name, column in values.items()}
        self.clipped = {name: count for name, count in clipped.items() if count}

    @property
    def dropped(self) -> int:
        """Rows that were left out because a value is missing."""
        return self.rows - len(self.inputs)


def encode_data(data: Any, domain: Domain, missing: Missing = "refuse", *, keep: bool = False) -> Encoded:
    """Every row of a file, a data frame or a mapping of arrays as an input; at least two of them."""
    if isinstance(data, str | Path):
        source = f"--data {data}"
        encoded = _encode_file(Path(data), domain, missing, keep)
    else:
        source = "the data"
        many = len(next(iter(data.values()), ())) if isinstance(data, Mapping) else len(data)
        encoded = Encoded(domain, batches_of(data, domain.columns), missing, lambda: many, keep)
    if len(encoded.inputs) < 2:
        left = f", of which {encoded.dropped} lack a value" if encoded.dropped else ""
        count = {0: "no rows", 1: "only one row"}.get(encoded.rows, f"{encoded.rows} rows")
        raise BadInput(f"{source} has {count}{left}; each row is a user, and a run needs at least 2")
    return encoded


def batches_of(frame: Any, names: Sequence[str]) -> Iterator[Columns]:
    """The named columns of a data frame or of a mapping of arrays, some rows at a time."""
    if isinstance(frame, Mapping):
        found = {str(name): np.asarray(column) for name, column in frame.items()}
        _check_names(names, list(found), "the data")
        yield {name: found[name] for name in names}
        return
    import narwhals

    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise BadInput(f"the data is a {type(frame).__name__}; give a data frame or a mapping of arrays") from error
    _check_names(names, table.columns, "the data")
    for first in range(0, max(1, len(table)), BATCH_ROWS):
        yield {name: _plain_series(table[name][first : first + BATCH_ROWS]) for name in names}


def _encode_file(path: Path, domain: Domain, missing: Missing, keep: bool) -> Encoded:
    """In one pass if every cell is what its column was declared as, else once more by its text."""
    import pyarrow

    kinds = {
        column.name: pyarrow.timestamp("us") if column.dates else pyarrow.float64()
        for column in domain.declared
        if not column.categories
    }
    texts = {name: pyarrow.string() for name in domain.columns}
    try:
        read = file_batches(path, domain.columns, {**texts, **kinds})
        return Encoded(domain, read, missing, lambda: _most_rows(path), keep)
    except _Unreadable:
        read = file_batches(path, domain.columns, texts, LONG_BLOCK_BYTES)
        return Encoded(domain, read, missing, lambda: _most_rows(path), keep)


def _most_rows(path: Path) -> int:
    """How many rows a file has at most: as many as lines. Memory that is not written to is none."""
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        return int(parquet.read_metadata(path).num_rows)
    with path.open("rb") as file:
        blocks = iter(partial(file.read, LONG_BLOCK_BYTES), b"")
        return sum(block.count(b"\n") + block.count(b"\r") for block in blocks) + 1


class _Unreadable(BadInput):
    """The file, or a cell of it, is not what was expected."""


def file_batches(
    path: Path, names: Sequence[str], kinds: Mapping[str, Any] | None = None, block: int = BLOCK_BYTES
) -> Iterator[Columns]:
    """The named columns of a file, some rows at a time; `kinds` are the types of the cells of a text file."""
    from pyarrow import ArrowInvalid

    kind = path.suffix.lower()
    if not path.is_file():
        raise BadInput(f"--data {path} is not a file; give a .csv, .tsv or .parquet file")
    if kind not in (".parquet", *SEPARATORS):
        raise BadInput(f"--data {path} ends in {kind or 'nothing'}; give a .csv, .tsv or .parquet file")
    try:
        if not path.stat().st_size:
            raise BadInput(f"--data {path} is empty; it needs a line with the names of its columns")
        if kind == ".parquet":
            from pyarrow import parquet

            # Reading ahead takes as much memory as the file.
            with parquet.ParquetFile(path, pre_buffer=False) as file:
                _check_names(names, file.schema_arrow.names, str(path))
                for batch in file.iter_batches(BATCH_ROWS, columns=list(names), use_threads=False):
                    yield {name: _plain(batch.column(name)) for name in names}
            return
        from pyarrow import csv

        # Spaces around a name are no part of it.
        header = _header(path, SEPARATORS[kind])
        found = {name.strip(): name for name in header}
        _check_names(names, [name.strip() for name in header], str(path))
        types = {found[name]: each for name, each in (kinds or {}).items()}
        options = csv.ConvertOptions(include_columns=[found[name] for name in dict.fromkeys(names)], column_types=types)
        reading = csv.ReadOptions(block_size=block, use_threads=False)
        parsing = csv.ParseOptions(delimiter=SEPARATORS[kind])
        with csv.open_csv(path, reading, parsing, options) as reader:
            for batch in reader:
                yield {name: _plain(batch.column(found[name])) for name in names}
    except (ArrowInvalid, OSError, UnicodeDecodeError) as error:
        said = str(error).splitlines()[0]
        if isinstance(error, UnicodeDecodeError) or "invalid UTF8" in said:
            raise _Unreadable(f"--data {path} is not UTF-8 text; save it as UTF-8") from error
        raise _Unreadable(f"--data {path} cannot be read: {said}") from error


def _header(path: Path, separator: str) -> list[str]:
    """The names of the columns of a text file."""
    import csv

    with path.open("rb") as file:
        line = file.readline().removeprefix(BYTE_ORDER_MARK).decode("utf-8")
    names = next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])
    other = next((each for each in (";", "\t", ",") if each != separator and each in line), None)
    if len(names) == 1 and other is not None:
        word = {";": "semicolons", "\t": "tabs", ",": "commas"}[other]
        right = {"\t": "call the file .tsv", ",": "call the file .csv"}.get(other, "write it with commas")
        raise BadInput(f"--data {path} separates its columns by {word}; {right}")
    return names


def _check_names(names: Sequence[str], known: Sequence[str], source: str) -> None:
    for name in names:
        if name not in known:
            raise BadInput(f"{source} has no column {name!r}{nearest(name, list(known))}")
        if list(known).count(name) > 1:
            raise BadInput(f"{source} has several columns called {name!r}; rename all but one")


def _plain_series(series: Any) -> NDArray[Any]:
    """A column of a data frame; what Arrow has no type for, such as mixed objects, stays as it is."""
    from pyarrow import ArrowInvalid, ArrowTypeError, chunked_array

    try:
        arrow = series.to_arrow()
        return _plain(arrow if not hasattr(arrow, "combine_chunks") else chunked_array(arrow).combine_chunks())
    except (ArrowInvalid, ArrowTypeError):
        return np.array(series.to_list(), dtype=object)


def _plain(array: Any) -> NDArray[Any]:
    """Numbers as float64 with NaN for what is missing, moments as datetime64, everything else as objects with None."""
    import pyarrow
    from pyarrow import types

    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return _filled(_cast(array, pyarrow.float64()), np.float64(np.nan))
    if types.is_date(kind) or types.is_timestamp(kind):
        return _filled(_cast(array, pyarrow.timestamp("us")), np.datetime64("NaT", "us"))
    if types.is_string(kind) or types.is_large_string(kind):
        coded = array.dictionary_encode()
        words = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
        return np.asarray(words[_filled(coded.indices, np.int32(-1))])
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=object)


def _cast(array: Any, kind: Any) -> Any:
    """Only where there is something to do: what casts takes 10 MiB."""
    return array if array.type == kind else array.cast(kind, safe=False)


def _filled(array: Any, absent: np.generic) -> NDArray[Any]:
    """Values from Arrow's own memory, with this one where there is none. Arrow's way to numpy would load pandas."""
    bits, values = array.buffers()
    rows = slice(array.offset, array.offset + len(array))
    found = np.frombuffer(values or b"", absent.dtype)[rows]
    if not array.null_count:
        return found
    return np.where(np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[rows], found, absent)
