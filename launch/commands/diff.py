"""`parley diff`: two runs reply by reply."""

import json
from pathlib import Path
from typing import Any

import click

from emulator.diff import compare_runs
from launch.recorded import find_run, json_option
from launch.settings import CHECK_FAILED, GOOD, debug_option


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@json_option
@debug_option
def diff(a: Path, b: Path, as_json: bool) -> int:
    """Compare the runs A and B: setup, every broadcast, every reply, the result.

    Each is the folder of a run, its name in runs/, or a transcript. How replies were cut into frames, and in which
    order they came, does not count.
    """
    outcome = compare_runs(find_run(a).listen(), find_run(b).listen()).record()
    click.echo(json.dumps(outcome, indent=2) if as_json else describe(outcome))
    return GOOD if outcome["identical"] else CHECK_FAILED


def describe(outcome: dict[str, Any]) -> str:
    """The comparison for people."""
    replies, only = outcome["replies"], outcome["only"]
    counts = (
        f"{replies['a']} and {replies['b']} replies, {outcome['different']} differ, "
        f"{only['a']} only in A, {only['b']} only in B"
    )
    first = outcome["first_difference"]
    if first is None:
        return f"identical: {counts}"
    who = "the analyst" if first["user"] is None else f"user {first['user']}"
    where = who if first["round"] is None else f"round {first['round']}, {who}"
    return f"DIFFERENT: {counts}\nfirst at {where}\n  A  {json.dumps(first['a'])}\n  B  {json.dumps(first['b'])}"
