"""`parley export`: the replies of a run as JSON Lines or Parquet."""

import json
import sys
from pathlib import Path
from typing import Literal

import click

from emulator.audit.conversation import Conversation
from emulator.errors import BadInput
from launch.export import write_json_lines, write_parquet
from launch.recorded import find_run, run_argument
from launch.settings import debug_option

Format = Literal["jsonl", "parquet"]


@click.command()
@run_argument
@click.option("--format", "format_name", type=click.Choice(["jsonl", "parquet"]), help="[default: by the file's name]")
@click.option("--out", type=click.Path(path_type=Path), help="File to write; - is standard output.  [default: -]")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as a record of JSON; needs --out.")
@debug_option
def export(run: Path, format_name: Format | None, out: Path | None, as_json: bool) -> None:
    """Write the replies of RUN as a table, one row a reply.

    RUN is the folder of a run, its name in runs/, or a transcript; without it, the latest run.
    """
    to_terminal = out is None or str(out) == "-"
    chosen: Format = format_name or ("parquet" if out is not None and out.suffix == ".parquet" else "jsonl")
    if to_terminal and (chosen == "parquet" or as_json):
        raise BadInput("give --out FILE: neither Parquet nor --json goes with rows on standard output")
    conversation = find_run(run).listen()
    if out is None or to_terminal:
        write_json_lines(conversation, sys.stdout)
        return
    rows = _write(conversation, chosen, out)
    record = {"file": str(out), "format": chosen, "rows": rows}
    click.echo(json.dumps(record, indent=2) if as_json else f"{rows} replies written to {out}")


def _write(conversation: Conversation, chosen: Format, out: Path) -> int:
    """Write to a new file, whole or not at all."""
    if out.exists():
        raise BadInput(f"{out} exists already; give a file that does not")
    fresh = out.with_name(f".{out.name}.new")
    try:
        if chosen == "parquet":
            rows = write_parquet(conversation, fresh)
        else:
            with open(fresh, "w", encoding="utf-8") as file:
                rows = write_json_lines(conversation, file)
        fresh.replace(out)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)
    return rows
