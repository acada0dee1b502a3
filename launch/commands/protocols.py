"""`parley protocols`: what there is to choose from."""

import json
from contextlib import suppress

import click
from rich import box
from rich.console import Console
from rich.table import Table

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Claim
from parley.launch.settings import debug_option, protocol_file_option
from parley.protocols.registry import design, lookup, names
from parley.protocols.workloads.choice import make_workload

# A claim belongs to a protocol with parameters, so each is made for the smallest problem that it takes.
EXAMPLES = (("kendall", "2x2"), ("gini-mean-difference", "2"), ("gini-diversity", "2"), ("auc", "2"))


def example_claim(name: str) -> Claim:
    """What the protocol claims, with epsilon 1, on the first example it can be used for."""
    for statistic, levels in EXAMPLES:
        with suppress(BadInput):
            return design(name, make_workload(statistic, levels, None), epsilon=1.0, users=1000).claim
    raise BadInput(f"{name} takes none of the example problems")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a list of records.")
@protocol_file_option
@debug_option
def protocols(as_json: bool) -> None:
    """List the protocols there are: name, rounds, kind of interaction, one line each."""
    claims = {name: example_claim(name) for name in names("shuffler")}
    rows = [
        {
            "name": name,
            "rounds": claim.rounds,
            "interaction": claim.interaction,
            "trusts": claim.trusts,
            "summary": lookup(name).summary,
        }
        for name, claim in claims.items()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "rounds", "interaction", "trusts", "summary"):
        table.add_column(heading, justify="right" if heading == "rounds" else "left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console(soft_wrap=True).print(table)
