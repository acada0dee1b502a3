"""`parley export`: the replies of a run as JSON Lines, CSV or Parquet."""

import sys
from pathlib import Path
from typing import Literal, get_args

import click

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.record.conversation import KEPT_BYTES
from parley.emulator.record.shards import read_run
from parley.launch.commands.show import Listing
from parley.launch.results.display.printable import printable, printable_json
from parley.launch.results.export import write_csv, write_json_lines, write_parquet
from parley.launch.results.folder import whole_file
from parley.launch.results.run_files import find_run, run_argument
from parley.launch.settings import CHECK_FAILED, GOOD, output_options, path_option

Format = Literal["jsonl", "csv", "parquet"]


@click.command(epilog="Example: parley export runs/latest --out replies.parquet")
@run_argument
@click.option("--format", "format_name", type=click.Choice(get_args(Format)), help="[default: by the file's name]")
@path_option("--out", help="File to write; - is standard output.  [default: -]")
@output_options("what was written as JSON; needs --out")
def export(run: Path, format_name: Format | None, out: Path | None, as_json: bool) -> int:
    """Write the replies of RUN as a table, one row per reply.

    RUN is the folder of a run, its name in runs/, or a transcript; without it, the latest run. Columns: record,
    time_ns, node, round, user and those of the replies. A column of the replies that has one of these names, or
    begins with `reply.`, gets `reply.` before its name.

    Exit code 1 if the record is truncated or altered; the replies before that place are written.
    """
    to_terminal = out is None or str(out) == "-"
    chosen = format_name or named_format(out)
    if to_terminal and (chosen == "parquet" or as_json):
        raise BadInput("give --out FILE: neither Parquet nor --json goes with rows on standard output")
    try:
        whole = Listing(read_run(find_run(run).transcript, keep=KEPT_BYTES))
    except TranscriptError as error:
        click.echo(f"parley: {printable(str(error))}; there is nothing to export", err=True)
        return CHECK_FAILED
    if out is None or to_terminal:
        rows = (write_csv if chosen == "csv" else write_json_lines)(whole, sys.stdout)
    else:
        if out.exists():
            raise BadInput(f"{out} exists already; give a file that does not")
        with whole_file(out) as fresh:
            if chosen == "parquet":
                rows = write_parquet(whole, fresh)
            else:
                with open(fresh, "w", encoding="utf-8", newline="") as file:
                    rows = (write_csv if chosen == "csv" else write_json_lines)(whole, file)
        record = {"file": str(out), "format": chosen, "rows": rows, "damage": whole.damage}
        click.echo(printable_json(record, indent=2) if as_json else printable(f"{rows} replies written to {out}"))
    if whole.damage is None:
        return GOOD
    click.echo(f"{whole.last_words()}; only the {rows} replies before that place were exported", err=True)
    return CHECK_FAILED


def named_format(out: Path | None) -> Format:
    """What the name of a file says about its format; without a file, and for names that say nothing, JSON Lines."""
    kind = "" if out is None else out.suffix.lower()
    known: dict[str, Format] = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl", "": "jsonl"}
    if kind not in known:
        raise BadInput(f"{out} ends in {kind}; give a file that ends in .jsonl, .csv or .parquet, or say --format")
    return known[kind]
