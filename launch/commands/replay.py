"""`parley replay`, a recorded conversation beside itself run again, and `parley diff`, two runs reply by reply."""

import asyncio
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.diff import compare_runs
from parley.emulator.record.replay import Replay, Role, replay_analyst, replay_users
from parley.launch.commands.show import place, unclosed
from parley.launch.results.display.printable import printable, printable_json
from parley.launch.results.display.progress import Working
from parley.launch.results.run_files import RunFiles, find_run, run_argument, witness_option
from parley.launch.settings import CHECK_FAILED, GOOD, output_options
from parley.nodes.replay import Timing, replay_live


@click.command(epilog="Example: parley replay runs/latest --role all")
@run_argument
@click.option("--role", type=click.Choice(["analyst", "users", "all"]), default="analyst", show_default=True)
@click.option("--live", is_flag=True, help="Send the record through real sockets to a fresh analyst process.")
@click.option(
    "--timing",
    type=click.Choice(["fast", "recorded"]),
    default="fast",
    show_default=True,
    help="With --live: as fast as possible, or with the pauses of the record.",
)
@witness_option
@output_options()
def replay(run: Path, role: Role, live: bool, timing: Timing, witness: Path | None, as_json: bool) -> int:
    """Replay RUN: the analyst's words from the record, the users' replies from the witness, byte for byte.

    RUN is the folder of a run, its name in runs/, or a transcript; without it, the latest run. Of a record that was
    cut off, the whole records are replayed, and the exit code is 1.
    """
    if timing == "recorded" and not live:
        raise BadInput("--timing recorded is for --live; without sockets there is nothing to wait for")
    files = find_run(run, witness)
    with Working("replaying"):
        conversation = files.listen()
        outcome = replay_recorded(files, conversation, role, timing if live else None)
    click.echo(printable_json(outcome.record(), indent=2) if as_json else describe(outcome))
    return exit_code(outcome.identical, "replayed", conversation)


def replay_recorded(files: RunFiles, conversation: Conversation, role: Role, timing: Timing | None) -> Replay:
    """The roles of a recorded conversation once more; with a timing, the analyst through real sockets."""
    parts: list[Replay] = []
    if role in ("analyst", "all"):
        parts.append(replay_analyst(conversation) if timing is None else asyncio.run(replay_live(conversation, timing)))
    if role in ("users", "all"):
        parts.append(replay_users(conversation, files.need_witness()))
    difference = next((part.difference for part in parts if part.difference is not None), None)
    return Replay(role=role, compared=sum(part.compared for part in parts), difference=difference)


def describe(outcome: Replay) -> str:
    if outcome.difference is None:
        who = {"analyst": "the analyst", "users": "the users", "all": "analyst and users"}[outcome.role]
        return f"identical: {outcome.compared} messages and replies of {who} came out the same, byte for byte"
    found = outcome.difference
    recorded, replayed = printable_json(found.recorded), printable_json(found.replayed)
    return f"DIFFERENT: {place(found.round, found.user)}\n  recorded  {recorded}\n  replayed  {replayed}"


@click.command(epilog="Example: parley diff runs/latest runs/latest")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@output_options()
def diff(a: Path, b: Path, as_json: bool) -> int:
    """Compare the runs A and B: setup, every broadcast, every reply, the result.

    Each is the folder of a run, its name in runs/, or a transcript. How replies were cut into frames, and in which
    order they came, does not count. Of a record that was cut off, the whole records are compared, and the exit code
    is 1.
    """
    with Working("comparing"):
        one, other = find_run(a).listen(), find_run(b).listen()
        outcome = compare_runs(one, other).record()
    click.echo(printable_json(outcome, indent=2) if as_json else describe_diff(outcome))
    return exit_code(outcome["identical"], "compared", one, other)


def describe_diff(outcome: dict[str, Any]) -> str:
    replies, only = outcome["replies"], outcome["only"]
    counts = (
        f"{replies['a']} and {replies['b']} replies, {outcome['different']} differ, "
        f"{only['a']} only in A, {only['b']} only in B"
    )
    first = outcome["first_difference"]
    if first is None:
        return f"identical: {counts}"
    said = f"  A  {printable_json(first['a'])}\n  B  {printable_json(first['b'])}"
    return f"DIFFERENT: {counts}\nfirst at {place(first['round'], first['user'])}\n{said}"


def exit_code(identical: bool, done: str, *conversations: Conversation) -> int:
    """Good if nothing differs and every record is whole; of one that was cut off, say so."""
    damage = [found for each in conversations if (found := unclosed(each.reader))]
    for each in damage:
        click.echo(f"parley: {printable(each)}; only what is whole was {done}", err=True)
    return GOOD if identical and not damage else CHECK_FAILED
