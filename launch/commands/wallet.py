"""`parley wallet`: what users may give away over many runs, and what they have."""

import json
import math
import re
from functools import reduce
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from emulator.errors import BadInput
from emulator.randomizer import Floats
from emulator.wallet_entries import MOST_INPUTS, Mode, Terms
from launch.recorded import json_option
from launch.settings import debug_option, protocol_file_option
from nodes.wallet import StoredWallet
from protocols.workloads.declared import declared
from protocols.workloads.domain import Categories, Domain, Interval, Pair

RANGE = re.compile(r"([^=]+)=([^:=/]+):([^:=/]+)/([0-9]{1,9})")
CHOICES = re.compile(r"([^=]+)=([^=:]+,[^=:]+)")


@click.group()
def wallet() -> None:
    """Make a wallet with a lifetime cap for each user, or show what users have spent of it."""


@wallet.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--users", type=int, metavar="N", required=True, help="Users of the node that will use it.")
@click.option("--cap", type=float, required=True, help="The most epsilon each of them gives away, ever.")
@click.option("--delta-cap", type=float, default=0.0, show_default=True, help="The most delta, behind a shuffler.")
@click.option(
    "--constant", is_flag=True, help="Their values never change: count what was really said, not what was promised."
)
@click.option(
    "--inputs", type=int, metavar="K", help="The values are 0 .. K-1. With --constant, give this or --column."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=LOW:HIGH/LEVELS",
    help="A column as fine as any run will ask, or NAME=A,B for categories; may be repeated.",
)
@json_option
@debug_option
def create(
    folder: Path,
    users: int,
    cap: float,
    delta_cap: float,
    constant: bool,
    inputs: int | None,
    columns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make an empty wallet in a new FOLDER.

    Example: parley wallet create purse --users 2000 --cap 4 --constant --column age=18:90/16
    """
    terms = make_terms(users, cap, delta_cap, constant, inputs, columns)
    StoredWallet.create(folder, terms)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **vars(terms)}))
    else:
        counted = f"what they say about {terms.inputs} constant values" if constant else "the sum of what runs claim"
        click.echo(f"a wallet for {users} users in {folder}: epsilon at most {cap:g}, counted by {counted}")


@wallet.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--epsilon", type=float, help="How many can still answer a round of this epsilon [default: the last].")
@json_option
@protocol_file_option
@debug_option
def show(folder: Path, epsilon: float | None, as_json: bool) -> None:
    """Show what the users of a wallet have spent and how many can still answer; a run may be using it.

    Example: parley wallet show purse
    """
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
        raise BadInput(f"--epsilon {epsilon} cannot be used; give a positive, finite number")
    found = record(folder, StoredWallet.look(folder), epsilon)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        print_table(found)


def make_terms(
    users: int, cap: float, delta_cap: float, constant: bool, inputs: int | None, columns: tuple[str, ...]
) -> Terms:
    """The terms that flags ask for, or BadInput naming the flag that is wrong."""
    if inputs is not None and columns:
        raise BadInput("--inputs and --column contradict each other; give one of them")
    if constant and inputs is None and not columns:
        raise BadInput("say what the constant values are: --inputs K, or --column NAME=LOW:HIGH/LEVELS for each column")
    if inputs is not None and not 2 <= inputs <= MOST_INPUTS:
        raise BadInput(f"--inputs {inputs} cannot be used; give a number from 2 to {MOST_INPUTS}")
    domain: dict[str, Any] = {}
    size = inputs or 0
    if columns:
        whole = reduce(Pair, [read_column(text) for text in columns])
        domain, size = declared(whole), whole.size
    mode: Mode = "constant" if constant else "sum"
    return Terms(users=users, mode=mode, cap=cap, delta_cap=delta_cap, inputs=size, domain=domain)


def read_column(text: str) -> Domain:
    """age=18:90/16 or label=no,yes."""
    if match := RANGE.fullmatch(text):
        name, low, high, levels = match.groups()
        try:
            return Interval(name.strip(), float(low), float(high), int(levels))
        except ValueError:
            raise BadInput(f"--column {text!r:.80}: {low} and {high} should be numbers") from None
    if match := CHOICES.fullmatch(text):
        return Categories(match[1].strip(), tuple(each.strip() for each in match[2].split(",")))
    raise BadInput(f"--column {text!r:.80} must look like age=18:90/16 or label=no,yes")


def record(folder: Path, found: StoredWallet, epsilon: float | None) -> dict[str, Any]:
    """What `--json` prints."""
    terms, spent = found.terms, found.spent()
    asked = found.last_epsilon if epsilon is None else epsilon
    return {
        "folder": str(folder),
        "users": terms.users,
        "mode": terms.mode,
        "inputs": terms.inputs or None,
        "domain": terms.domain,
        "cap": terms.cap,
        "delta_cap": terms.delta_cap,
        "runs": len(found.runs),
        "spent": summary(spent.loss),
        "delta_spent": summary(spent.delta),
        "can_answer": {
            "epsilon": asked,
            "users": terms.users if asked is None else int(found.could_answer(asked).sum()),
        },
    }


def summary(values: Floats) -> dict[str, float]:
    return {"smallest": float(values.min()), "median": float(np.median(values)), "largest": float(values.max())}


def print_table(found: dict[str, Any]) -> None:
    """The same for people."""
    counted = "what was said about a constant value" if found["mode"] == "constant" else "the sum of claims"
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "cap", "smallest", "median", "largest"):
        table.add_column(heading, justify="right" if heading else "left")
    rows = [("epsilon spent", "cap", "spent"), ("delta spent", "delta_cap", "delta_spent")]
    for title, cap, spent in rows if found["delta_cap"] else rows[:1]:
        table.add_row(title, f"{found[cap]:g}", *(f"{found[spent][each]:.4g}" for each in found[spent]))
    can = found["can_answer"]
    console = Console(width=100)
    console.print(f"{found['users']} users, {found['runs']} runs, counted by {counted}")
    console.print(table)
    if can["epsilon"] is not None:
        console.print(f"can still answer a round of epsilon {can['epsilon']:g}: {can['users']} of {found['users']}")
