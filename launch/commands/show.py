"""`parley show`: the records of a transcript, and where it is truncated or altered."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.record.records import Record
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import KINDS, Announce, Message, Ready, Reminder, Replies
from parley.launch.report.words import named
from parley.launch.results.printable import printable, printable_json
from parley.launch.results.run_files import find_run, json_option, run_argument
from parley.launch.settings import CHECK_FAILED, GOOD, debug_option

# Of a message with one of these fields the first says enough; of any other kind all fields are shown, briefly.
TELLING = ("estimate", "reason", "detail", "protocol", "replies", "nodes")
ELSEWHERE = ("run", "round")
HEADINGS = f"{'record':>8}  {'time':<15}  {'sender':<16}  {'kind':<9}  {'round':>5}  {'bytes':>9}  what"


@click.command()
@run_argument
@click.option("--round", "number", type=int, help="Only records of this round.")
@click.option("--user", type=int, help="Only replies of this user, and what its node said of itself.")
@click.option("--kind", metavar="KIND", help=f"Only messages of this kind: {', '.join(KINDS)}.")
@json_option
@debug_option
def show(run: Path, number: int | None, user: int | None, kind: str | None, as_json: bool) -> int:
    """Show the records of RUN: the folder of a run, its name, or a transcript; by default the latest run.

    Exit code 1 if it is truncated or altered, after all the records before that place.
    """
    if kind is not None and kind not in KINDS:
        raise BadInput(f"no message is of the kind {kind!r}; there are {', '.join(KINDS)}")
    try:
        reader = TranscriptReader(find_run(run).transcript)
    except TranscriptError as error:
        click.echo(f"parley: {printable(str(error))}", err=True)
        return CHECK_FAILED
    listing = Listing(reader)
    rows = (row(record) for record in listing if chosen(record.message, number, user, kind))
    if as_json:
        said = {"run": reader.run, "records": list(rows)}
        closing = reader.closing
        ending = None if closing is None else {"outcome": closing.outcome, "reason": closing.reason}
        click.echo(printable_json({**said, "closing": ending, "damage": listing.damage}, indent=2))
        if listing.damage:
            click.echo(listing.last_words(), err=True)
    else:
        click.echo(HEADINGS)
        for each in rows:
            click.echo(line(each))
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
        """The replies among them."""
        for record in self:
            if isinstance(record.message, Replies):
                yield record, record.message

    def last_words(self) -> str:
        closing = self.reader.closing
        if self.damage is not None or closing is None:
            return printable(f"parley: {self.damage}")
        why = f": {closing.reason}" if closing.reason else ""
        return printable(f"{closing.outcome} after {closing.records} records{why}")


def unclosed(reader: TranscriptReader, after: str = "") -> str | None:
    """That a record which was read to its end has no closing record; None if it has one."""
    if reader.closing is not None:
        return None
    return f"{reader.path} is truncated: it ends at byte {reader.truncated_at}, {after}without a closing record"


def place(number: int | None, user: int | None) -> str:
    """Where in a conversation something was said."""
    who = "the analyst" if user is None else f"user {user}"
    return who if number is None else f"round {number}, {who}"


def chosen(message: Message, number: int | None, user: int | None, kind: str | None) -> bool:
    """Does the message pass the filters?"""
    if kind is not None and message.kind != kind:
        return False
    if number is not None and getattr(message, "round", None) != number:
        return False
    if user is None:
        return True
    if isinstance(message, Replies):
        return bool((message.users == user).any())
    return isinstance(message, Ready) and message.first <= user < message.first + message.users


def row(record: Record) -> dict[str, Any]:
    """What is shown of a record."""
    message = record.message
    return {
        "sequence": record.sequence,
        "time": record.time,
        "sender": record.sender,
        "kind": message.kind,
        "round": getattr(message, "round", None),
        "bytes": len(record.frame),
        "what": what(message),
    }


def what(message: Message) -> str:
    """A few words about the content."""
    if isinstance(message, Replies):
        if len(message.users) == 0:
            return "nobody speaks"
        first, last = int(message.users[0]), int(message.users[-1])
        return f"user {first}" if first == last else f"{len(message.users)} users, {first} to {last}"
    if isinstance(message, Ready):
        return f"process {message.pid}, users {message.first} to {message.first + message.users - 1}"
    if isinstance(message, Reminder):
        return f"{len(message.missing)} nodes missing"
    if isinstance(message, Announce):
        return ", ".join(f"{name} {array.shape}" for name, array in message.broadcast.items())
    content = {each.name: getattr(message, each.name) for each in fields(message) if each.name not in ELSEWHERE}
    for name in TELLING:
        if name in content:
            return f"{name} {content[name]}"
    return ", ".join(named(content))


def line(shown: dict[str, Any]) -> str:
    """A row of the table."""
    moment = datetime.fromtimestamp(shown["time"], UTC).strftime("%H:%M:%S.%f")
    number = "" if shown["round"] is None else shown["round"]
    return printable(
        f"{shown['sequence']:>8}  {moment:<15}  {shown['sender']:<16}  {shown['kind']:<9}  "
        f"{number:>5}  {shown['bytes']:>9}  {shown['what']}"
    )
