"""Columns of private values from a file (CSV, TSV, Parquet) or a data frame (pandas, polars, Arrow, ...)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.protocols.workloads.domain import nearest

Columns = dict[str, NDArray[Any]]
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_columns(path: Path, names: Sequence[str]) -> Columns:
    """The named columns of a file, and no others."""
    if not path.is_file():
        raise BadInput(f"--data {path} is not a file")
    return columns_of(_read(path), names, str(path))


def columns_of(frame: Any, names: Sequence[str], source: str = "the data") -> Columns:
    """The named columns of a data frame or of a mapping of arrays."""
    if isinstance(frame, Mapping):
        found = {str(name): np.asarray(column) for name, column in frame.items()}
        _check_names(names, list(found), source)
        return {name: found[name] for name in names}
    import narwhals

    try:
        table = narwhals.from_native(frame, eager_only=True)
    except TypeError as error:
        raise BadInput(f"{source} is a {type(frame).__name__}; give a data frame or a mapping of arrays") from error
    _check_names(names, table.columns, source)
    return {name: _plain(table[name]) for name in names}


def _read(path: Path) -> Any:
    from pyarrow import ArrowInvalid, csv, parquet

    kind = path.suffix.lower()
    try:
        if kind == ".parquet":
            return parquet.read_table(path)
        if kind in SEPARATORS:
            return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=SEPARATORS[kind]))
    except (ArrowInvalid, OSError) as error:
        raise BadInput(f"--data {path} cannot be read: {str(error).splitlines()[0]}") from error
    raise BadInput(f"--data {path} ends in {kind or 'nothing'}; give a .csv, .tsv or .parquet file")


def _check_names(names: Sequence[str], known: Sequence[str], source: str) -> None:
    for name in names:
        if name not in known:
            raise BadInput(f"{source} has no column {name!r}{nearest(name, list(known))}")


def _plain(series: Any) -> NDArray[Any]:
    """Numbers as float64 with NaN for what is missing, everything else as objects with None."""
    if series.dtype.is_numeric():
        values = series.to_list()
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.array(series.to_list(), dtype=object)
