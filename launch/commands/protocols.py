"""`parley protocols`: what there is to choose from, and one of them as a state machine."""

import json
from typing import Any

import click
from rich import box
from rich.table import Table

from parley.launch.commands.plan import wide_console
from parley.launch.settings import debug_option, protocol_file_option
from parley.protocols.outline import example, outline
from parley.protocols.registry import lookup, names


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print a list of records, or the record of one protocol.")
@protocol_file_option
@debug_option
def protocols(name: str | None, as_json: bool) -> None:
    """List all protocols, or show NAME as a state machine.

    With a name: the states, what is broadcast, what each user sends with which randomizer and epsilon, who answers, and
    the analyst's steps. Everything is derived from the protocol's class. Numbers are those of a small problem with
    epsilon 1.
    """
    if name is not None:
        lookup(name)
        shown = outline(example(name))
        click.echo(json.dumps(shown, indent=2) if as_json else drawn(shown))
        return
    rows = [listed(each) for each in names("shuffler")]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    wide_console().print(table_of(rows))


def table_of(rows: list[dict[str, Any]]) -> Table:
    """The list for people; names are never cut."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "rounds", "interaction", "trusts", "summary"):
        whole = heading in ("name", "rounds")
        table.add_column(heading, justify="right" if heading == "rounds" else "left", no_wrap=whole)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def listed(name: str) -> dict[str, Any]:
    """One row of the list."""
    claim = example(name).claim
    return {
        "name": name,
        "rounds": claim.rounds,
        "interaction": claim.interaction,
        "trusts": claim.trusts,
        "summary": getattr(lookup(name), "summary", ""),
    }


def drawn(shown: dict[str, Any]) -> str:
    """The state machine for people."""
    claim = shown["claim"]
    delta = f", delta {claim['delta']:g}" if claim["delta"] else ""
    lines = [
        f"{shown['name']}: {shown['summary']}",
        f"epsilon {claim['epsilon']:g}{delta}, {claim['interaction']}, users trust {claim['trusts']}",
        "",
    ]
    before = ", before the shuffler" if claim["trusts"] == "shuffler" else ""
    for each in shown["rounds"]:
        broadcast = ", ".join(f"{name} {kind}" for name, kind in each["broadcast"].items()) or "nothing"
        lines += [
            f"  analyst broadcasts {broadcast}",
            "   |",
            f"   v  state {each['number']}: asking {each['name']!r}; "
            f"{_epsilon(each['epsilon'])} from {each['answers']}{before}",
            *(f"      {line}" for line in each["says"].splitlines()),
        ]
        for send in each["sends"]:
            columns = ", ".join(f"{name} {kind}".strip() for name, kind in send["columns"].items())
            lines.append(f"      {send['name']:<10} {send['randomizer']:<22} {_epsilon(send['epsilon']):<18} {columns}")
        lines.append("   |")
    steps = [f"  {line}" for line in shown["analyst"]["steps"].splitlines()]
    return "\n".join([*lines, "   v  state ended: the estimate", "", f"analyst: {shown['analyst']['says']}", *steps])


def _epsilon(value: float | None) -> str:
    return "unbounded epsilon" if value is None else f"epsilon {value:.4g}"
