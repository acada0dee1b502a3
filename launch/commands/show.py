"""`parley show` and `parley export`: the records of a transcript and its replies, up to where it is cut or altered."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import click

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.record.conversation import KEPT_BYTES
from parley.emulator.record.records import MEMORY, Record, medium
from parley.emulator.record.shards import read_run
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import KINDS, Event, Message, Ready, Replies
from parley.launch.report.words import headline, row
from parley.launch.results.display.printable import fitted, printable, printable_json
from parley.launch.results.export import write_csv, write_json_lines, write_parquet
from parley.launch.results.folder import whole_file
from parley.launch.results.run_files import find_run, run_argument
from parley.launch.settings import CHECK_FAILED, GOOD, output_options, path_option

Format = Literal["jsonl", "csv", "parquet"]
OF_SUFFIX: dict[str, Format] = {
    **{".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".json": "jsonl"},
    "": "jsonl",
}
# Of a message with one of these fields that is shown whole; of any other, what the report says of it.
WHOLE = ("reason", "detail", "estimate")
HEADINGS = f"{'record':>6}  {'time':<12}  {'sender':<10}  {'kind':<8}  {'round':>5}  {'bytes':>7}  what"


@click.command(epilog="Example: parley show runs/latest --round 1")
@run_argument
@click.option("--round", "number", type=click.IntRange(min=0), help="Only records of this round.")
@click.option("--user", type=click.IntRange(min=0), help="Only replies of this user, and what its node said of itself.")
@click.option("--kind", metavar="KIND", help=f"Only messages of this kind: {', '.join(KINDS)}.")
@output_options()
def show(run: Path, number: int | None, user: int | None, kind: str | None, as_json: bool) -> int:
    """Show the records of RUN: the folder of a run, its name, or a transcript; by default the latest run.

    Exit code 1 if it is truncated or altered, after all the records before that place.
    """
    if kind is not None and kind not in KINDS:
        raise BadInput(f"no message is of the kind {kind!r}; there are {', '.join(KINDS)}")
    try:
        reader = read_run(find_run(run).transcript, everything=True)
    except TranscriptError as error:
        click.echo(f"parley: {printable(str(error))}", err=True)
        return CHECK_FAILED
    listing = Listing(reader)
    wanted = (record for record in listing if chosen(record.message, number, user, kind))
    rows = map(shown, wanted)
    if as_json:
        said = {"run": reader.run, "medium": medium(reader.header), "records": list(rows)}
        closing = reader.closing
        ending = None if closing is None else {"outcome": closing.outcome, "reason": closing.reason}
        click.echo(printable_json({**said, "closing": ending, "damage": listing.damage}, indent=2))
        if listing.damage:
            click.echo(listing.last_words(), err=True)
    else:
        click.echo(HEADINGS)
        any_row = False
        for each in rows:
            any_row = True
            # In a terminal long lines are broken between words; elsewhere a record stays a line.
            click.echo(fitted(line(each), 8) if sys.stdout.isatty() else line(each))
        if not any_row:
            click.echo("parley: no record fits; leave out --round, --user or --kind", err=True)
        click.echo(listing.last_words(), err=listing.damage is not None)
    return CHECK_FAILED if listing.damage else GOOD


class Listing:
    """The records up to the end or to the first damage, which it then can name.

    Damage that one reading finds is never forgotten, even if the record has grown whole by the next.
    """

    def __init__(self, reader: TranscriptReader) -> None:
        self.reader = reader
        self.damage: str | None = None
        self._seen = 0

    def __iter__(self) -> Iterator[Record]:
        self._seen = 0
        try:
            for record in self.reader:
                # Decoded here, so that a frame that makes no sense is damage at this very record.
                record.message  # noqa: B018
                yield record
                self._seen = record.sequence + 1
        except TranscriptError as error:
            self.damage = self.damage or str(error)
        else:
            self.damage = self.damage or unclosed(self.reader, f"after {self._seen} whole records and ")

    def replies(self) -> Iterator[tuple[Record, Replies]]:
        for record in self:
            if isinstance(record.message, Replies):
                yield record, record.message

    def last_words(self) -> str:
        closing = self.reader.closing
        if self.damage is not None or closing is None:
            return printable(f"parley: {self.damage}")
        why = f": {closing.reason}" if closing.reason else ""
        where = " in memory" if medium(self.reader.header) == MEMORY else ""
        # In a run with shards those of all boards.
        return printable(f"{closing.outcome}{where} after {max(self._seen, closing.records)} records{why}")


def unclosed(reader: TranscriptReader, after: str = "") -> str | None:
    """That a record which was read to its end has no closing record; None if it has one."""
    found = reader.unfinished
    if found is None:
        return None
    return f"{found.path} is truncated: it ends at byte {found.truncated_at}, {after}without a closing record"


def place(number: int | None, user: int | None) -> str:
    who = "the analyst" if user is None else f"user {user}"
    return who if number is None else f"round {number}, {who}"


def chosen(message: Message, number: int | None, user: int | None, kind: str | None) -> bool:
    if kind is not None and message.kind != kind:
        return False
    if number is not None and getattr(message, "round", None) != number:
        return False
    if user is None:
        return True
    if isinstance(message, Replies):
        return bool((message.users == user).any())
    return isinstance(message, Ready) and message.first <= user < message.first + message.users


def shown(record: Record) -> dict[str, Any]:
    message = record.message
    event = message.event if isinstance(message, Event) else None
    return {**row(record), "time": record.time, "event": event, "what": what(message, record.sender)}


def what(message: Message, sender: str = "") -> str:
    if isinstance(message, Event):
        # Who tells of itself stands in its own column.
        about = "" if message.node == sender else f"{message.node}, "
        return f"{message.event}: {about}{message.detail}"
    for name in WHOLE:
        if hasattr(message, name):
            return f"{name} {getattr(message, name)}"
    return headline(message)


def line(shown: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(shown["time"], UTC).strftime("%H:%M:%S.%f")[:-3]
    number = "" if shown["round"] is None else shown["round"]
    return printable(
        f"{shown['sequence']:>6}  {moment:<12}  {shown['sender']:<10}  {shown['kind']:<8}  "
        f"{number:>5}  {shown['bytes']:>7}  {shown['what']}"
    )


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
    named = OF_SUFFIX.get("" if out is None else out.suffix.lower())
    if out is not None and out.suffix and named not in (None, chosen):
        raise BadInput(
            f"--format {chosen} and {out} contradict each other; leave out --format or name the file .{chosen}"
        )
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
    if kind not in OF_SUFFIX:
        raise BadInput(f"{out} ends in {kind}; give a file that ends in .jsonl, .csv or .parquet, or say --format")
    return OF_SUFFIX[kind]
