"""`parley keys`: a pair of keys for the board, the analyst and every user node."""

import json
from pathlib import Path

import click

from parley.emulator.errors import BadInput
from parley.emulator.wire.security import RELAY_PREFIX
from parley.launch.cluster.keyring import make_keyring, parties
from parley.launch.settings import output_options

MOST_NODES = 100_000


@click.command(epilog="Example: parley keys keys --nodes 4")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--nodes", type=int, metavar="N", default=1, show_default=True, help="User nodes node-0 .. node-(N-1).")
@click.option("--node", "named", multiple=True, metavar="NAME", help="Names of user nodes instead; may be repeated.")
@click.option("--shuffler", is_flag=True, help="Keys for a shuffler too; user nodes then need shuffler.public.")
@click.option("--relays", default=0, metavar="R", help="Keys for relays too; nodes behind relay-0 need relay-0.public.")
@output_options()
def keys(folder: Path, nodes: int, named: tuple[str, ...], shuffler: bool, relays: int, as_json: bool) -> None:
    """Make keys in a new FOLDER.

    NAME.secret is the pair of NAME: it goes to that process's host, by a safe way, and nowhere else. Every host needs
    board.public; the board alone needs allowed.public, the list of those it lets in.

    Example: parley keys keys --nodes 4 && parley run ... --processes 4 --keys keys
    """
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
