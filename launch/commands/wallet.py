"""`parley wallet`: what users may give away over many runs, and what they have."""

import json
import math
import os
import shutil
from dataclasses import replace
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.randomizer import Floats
from parley.emulator.roles.consent import domain_of
from parley.emulator.roles.wallet.entries import MOST_INPUTS, Mode, Terms
from parley.launch.cluster.layout import shares
from parley.launch.settings import output_options, print_table, protocol_file_option
from parley.nodes.init import read_column
from parley.nodes.state.wallet import StoredWallet
from parley.protocols.randomizers.exact import check_epsilon


@click.group(epilog="Example: parley wallet create purse --users 2000 --cap 4")
def wallet() -> None:
    """Make a wallet with a lifetime cap for each user, or show what users have spent of it."""


@wallet.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--users", type=int, metavar="N", required=True, help="Number of users of the node that will use it.")
@click.option(
    "--processes",
    type=int,
    metavar="P",
    default=1,
    show_default=True,
    help="Number of user nodes that share them, as in a run.",
)
@click.option("--cap", type=float, required=True, help="The most epsilon that each user may ever give away.")
@click.option("--delta-cap", type=float, default=0.0, show_default=True, help="The most delta, behind a shuffler.")
@click.option(
    "--constant", is_flag=True, help="Values never change: count what was really said, not what was promised."
)
@click.option(
    "--inputs", type=int, metavar="K", help="The values are 0 .. K-1. With --constant, give this or --column."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=LOW:HIGH/LEVELS",
    help="A column at the finest resolution that any run will ask for, or NAME=A,B for categories; may be repeated.",
)
@output_options()
def create(
    folder: Path,
    users: int,
    processes: int,
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
    if inputs is not None and columns:
        raise BadInput("--inputs and --column contradict each other; give one of them")
    if constant and inputs is None and not columns:
        raise BadInput("say what the constant values are: --inputs K, or --column NAME=LOW:HIGH/LEVELS for each column")
    if inputs is not None and not 2 <= inputs <= MOST_INPUTS:
        raise BadInput(f"--inputs {inputs} cannot be used; give a number from 2 to {MOST_INPUTS}")
    found = [read_column(text) for text in columns]
    size = math.prod(column.levels for column in found) if columns else inputs or 0
    domain = domain_of(size, found) if size else {}
    mode: Mode = "constant" if constant else "sum"
    terms = Terms(users=users, mode=mode, cap=cap, delta_cap=delta_cap, inputs=size, domain=domain)
    # Of users who are spread over several nodes, all wallets or none.
    if not 1 <= processes <= users:
        raise BadInput(f"--processes {processes} cannot share {users} users; give 1 to {users}")
    if processes == 1:
        StoredWallet.create(folder, terms)
    elif folder.exists() or folder.is_symlink():
        raise BadInput(f"{folder} exists already; a wallet is never written over, give a new folder")
    else:
        draft = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            draft.mkdir(mode=0o700)
            for number, (_, several) in enumerate(shares(users, processes)):
                StoredWallet.create(draft / f"node-{number}", replace(terms, users=several))
            draft.rename(folder)
        except OSError as error:
            raise BadInput(f"the wallets {folder} cannot be made: {error.strerror}") from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **vars(terms)}))
    else:
        counted = f"what they say about {terms.inputs} constant values" if constant else "the sum of what runs claim"
        click.echo(f"a wallet for {users} users in {folder}: epsilon at most {cap:g}, counted by {counted}")


@wallet.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--epsilon", type=float, help="Show how many users can still answer a round of this epsilon.  [default: the last]"
)
@protocol_file_option
@output_options()
def show(folder: Path, epsilon: float | None, as_json: bool) -> None:
    """Show what the users of a wallet have spent and how many can still answer; a run may be using it.

    Example: parley wallet show purse
    """
    if epsilon is not None:
        check_epsilon(epsilon)
    # The wallets a folder holds: itself, or those of node-0, node-1, ...
    parts = takewhile(Path.is_dir, (folder / f"node-{number}" for number in count()))
    found = record(folder, [StoredWallet.look(each) for each in list(parts) or [folder]], epsilon)
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    counted = "what was said about a constant value" if found["mode"] == "constant" else "the sum of claims"
    kinds = [("epsilon spent", "cap", "spent"), ("delta spent", "delta_cap", "delta_spent")]
    rows = [
        (title, f"{found[cap]:g}", *(f"{each:.4g}" for each in found[spent].values()))
        for title, cap, spent in (kinds if found["delta_cap"] else kinds[:1])
    ]
    can = found["can_answer"]
    click.echo(f"{found['users']} users, {found['runs']} runs, counted by {counted}")
    print_table(("", "cap", *found["spent"]), rows, words=("",))
    if can["epsilon"] is not None:
        click.echo(f"can still answer a round of epsilon {can['epsilon']:g}: {can['users']} of {found['users']}")


def record(folder: Path, found: list[StoredWallet], epsilon: float | None) -> dict[str, Any]:
    """What `--json` prints: all wallets of a folder together."""
    terms, spent = found[0].terms, [each.spent() for each in found]
    users = sum(each.terms.users for each in found)
    asked = found[0].last_epsilon if epsilon is None else epsilon
    return {
        "folder": str(folder),
        "users": users,
        "mode": terms.mode,
        "inputs": terms.inputs or None,
        "domain": terms.domain,
        "cap": terms.cap,
        "delta_cap": terms.delta_cap,
        "runs": len(found[0].runs),
        "spent": summary(np.concatenate([each.loss for each in spent])),
        "delta_spent": summary(np.concatenate([each.delta for each in spent])),
        "can_answer": {
            "epsilon": asked,
            "users": users if asked is None else sum(int(each.could_answer(asked).sum()) for each in found),
        },
    }


def summary(values: Floats) -> dict[str, float]:
    return {"smallest": float(values.min()), "median": float(np.median(values)), "largest": float(values.max())}
