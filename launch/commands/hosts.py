"""`parley keys` and `parley inputs`: what each host needs before nodes are started by hand."""

import json
import os
from pathlib import Path
from typing import Literal

import click
import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.wire.security import RELAY_PREFIX
from parley.launch.cluster.keyring import make_keyring, parties
from parley.launch.data import encode_data
from parley.launch.results.display.printable import printable
from parley.launch.results.display.wording import source_words
from parley.launch.settings import output_options, path_option
from parley.nodes.state.user_state import State
from parley.protocols.workloads.domain import domain_from

MOST_NODES = 100_000


@click.command(epilog="Example: parley keys keys --nodes 4")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--nodes", type=int, metavar="N", help="User nodes node-0 .. node-(N-1).  [default: 1]")
@click.option("--node", "named", multiple=True, metavar="NAME", help="Names of user nodes instead; may be repeated.")
@click.option("--shuffler", is_flag=True, help="Keys for a shuffler too; user nodes then need shuffler.public.")
@click.option("--relays", default=0, metavar="R", help="Keys for relays too; nodes behind relay-0 need relay-0.public.")
@output_options()
def keys(folder: Path, nodes: int | None, named: tuple[str, ...], shuffler: bool, relays: int, as_json: bool) -> None:
    """Make keys in a new FOLDER.

    NAME.secret is the pair of NAME: it goes to that process's host, by a safe way, and nowhere else. Every host needs
    board.public; the board alone needs allowed.public, the list of those it lets in.

    Example: parley keys keys --nodes 4 && parley run ... --processes 4 --keys keys
    """
    if named and nodes is not None:
        raise BadInput("--node and --nodes contradict each other: names, or how many; give one of them")
    nodes = 1 if nodes is None else nodes
    for flag, number, least in (("--nodes", nodes, 1), ("--relays", relays, 0)):
        if not least <= number <= MOST_NODES:
            raise BadInput(f"{flag} {number} cannot be used; give a number from {least} to {MOST_NODES}")
    between = [f"{RELAY_PREFIX}-{number}" for number in range(relays)]
    names = parties(named or tuple(f"node-{number}" for number in range(nodes)), shuffler=shuffler, relays=between)
    make_keyring(folder, names)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "names": names}))
    else:
        click.echo(f"{len(names)} pairs of keys in {folder}; secrets can be read by you alone")


@click.command(epilog="Example: parley inputs inputs.npy --state state --data scores.csv")
@click.argument("out", type=click.Path(path_type=Path))
@path_option("--state", required=True, help="The node's state, whose users agreed to a domain (`parley node init`).")
@path_option("--data", required=True, help="A .csv, .tsv or .parquet file; each row is a user of this node.")
@click.option(
    "--missing",
    type=click.Choice(["refuse", "as-category"]),
    default="refuse",
    show_default=True,
    help="What to do with rows that lack a value; leaving them out would tell who has none.",
)
@output_options()
def inputs(out: Path, state: Path, data: Path, missing: Literal["refuse", "as-category"], as_json: bool) -> None:
    """Write the inputs of a user node to OUT (.npy), for `parley node user --inputs`.

    The columns, their ranges, levels and categories are those that the node's users agreed to. Nothing is sent, and
    nothing is read off the data.
    """
    with State(state) as opened:
        identity = opened.identity
    columns = identity.consent.domain.get("columns", ())
    if not columns:
        raise BadInput(f"the users of {state} agreed to numbers, not to columns; write their inputs to a .npy yourself")
    encoded = encode_data(data, domain_from(columns, absent=missing == "as-category"), missing)
    if len(encoded.inputs) != identity.users:
        raise BadInput(f"--data {data} has {len(encoded.inputs)} rows for the {identity.users} users of {state}")
    if out.suffix != ".npy" or out.exists():
        raise BadInput(f"{out} cannot be written; give a new file that ends in .npy")
    try:
        # Private values, for their owner alone.
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            np.save(file, encoded.inputs)
    except OSError as error:
        raise BadInput(f"{out} cannot be written: {error.strerror}") from error
    for told in source_words({"clipped": encoded.clipped}):
        click.echo(f"parley: {told}", err=True)
    found = {"file": str(out), "users": identity.users, "clipped": encoded.clipped}
    click.echo(json.dumps(found, indent=2) if as_json else printable(f"inputs of {identity.users} users in {out}"))
