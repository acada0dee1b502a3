"""`parley diff`: two runs reply by reply."""

from pathlib import Path
from typing import Any

import click

from parley.emulator.record.diff import compare_runs
from parley.launch.commands.show import place, unclosed
from parley.launch.results.printable import printable, printable_json
from parley.launch.results.run_files import find_run
from parley.launch.settings import CHECK_FAILED, GOOD, output_options


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
    one, other = find_run(a).listen(), find_run(b).listen()
    outcome = compare_runs(one, other).record()
    click.echo(printable_json(outcome, indent=2) if as_json else describe(outcome))
    damage = [found for each in (one, other) if (found := unclosed(each.reader))]
    for each in damage:
        click.echo(f"parley: {printable(each)}; only what is whole was compared", err=True)
    return GOOD if outcome["identical"] and not damage else CHECK_FAILED


def describe(outcome: dict[str, Any]) -> str:
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
