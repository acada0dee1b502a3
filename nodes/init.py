"""`parley node init`: the state of a user node, made before the node has contact with anybody.

What the user agrees to is said here and nowhere else: which run, about which values, for how much, trusting whom.
"""

import math
import re
import secrets
from pathlib import Path

import click

from parley.emulator.coins import fresh_key
from parley.emulator.errors import BadInput
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME
from parley.emulator.roles.consent import Column, Consent, domain_of
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.security import read_allowed, read_signer, read_trust
from parley.emulator.wire.signatures import SECRET_BYTES, Signer
from parley.nodes.common import BAD_INPUT, complain, path_option
from parley.nodes.state.user_state import Identity, State
from parley.protocols.workloads.values import read_ends

_RANGE = re.compile(r"(?P<name>[^=]+)=(?P<ends>[^/]+)/(?P<levels>[0-9]{1,7})")


def read_column(text: str) -> Column:
    """A column as it is typed: `age=18:90/16` for 16 bins of a range, `answer=no,maybe,yes` for categories."""
    match = _RANGE.fullmatch(text)
    ends = None if match is None else read_ends(match["ends"])
    if match is not None and ends is not None:
        low, high, dates = ends
        return Column(name=match["name"], levels=int(match["levels"]), low=low, high=high, dates=dates)
    name, separator, values = text.partition("=")
    if separator and "," in values:
        categories = tuple(values.split(","))
        return Column(name=name, levels=len(categories), categories=categories)
    raise BadInput(f"--column {text!r} must look like age=18:90/16 (a range in 16 bins) or answer=no,maybe,yes")


@click.command(name="init")
@click.argument("state", type=click.Path(path_type=Path))
@click.option("--run", required=True, help="Name of the run its users agree to, or a pattern such as 'survey-*'.")
@click.option("--node", required=True, help="Name of this node.")
@click.option("--first", type=int, default=0, show_default=True, help="Number of this node's first user.")
@click.option("--users", type=int, default=1, show_default=True, help="Number of users it hosts.")
@click.option("--inputs", "count", type=int, metavar="K", help="Their values are the whole numbers 0 .. K-1.")
@click.option(
    "--column", "columns", multiple=True, help="A column instead, such as age=18:90/16 or answer=no,maybe,yes."
)
@click.option("--cap", type=float, required=True, help="The most epsilon these users give away.")
@click.option("--delta-cap", type=float, default=0.0, show_default=True, help="The most delta they accept.")
@click.option(
    "--trust-shuffler", is_flag=True, help="They trust the shuffler; otherwise they trust nobody but this node."
)
@path_option("--trust", help="The signing keys of analyst, board and shuffler.")
@click.option("--shard", help="The shard whose board these users speak to, in a run of several boards.")
@path_option("--shuffler-key", help="The shuffler's public key for encrypted links.")
@path_option("--signing-key", help="The key this node signs with.  [default: a new one]")
def main(
    state: Path,
    run: str,
    node: str,
    first: int,
    users: int,
    count: int | None,
    columns: tuple[str, ...],
    cap: float,
    delta_cap: float,
    trust_shuffler: bool,
    trust: Path | None,
    shard: str | None,
    shuffler_key: Path | None,
    signing_key: Path | None,
) -> None:
    """Make the STATE of a user node: its keys, and what its users agree to.

    It cannot be changed afterwards. Prints the node's public signing key as a line for the key list (trust.toml)
    that the board and the auditors use.

    Example: parley node init alice --run survey --node node-0 --inputs 64 --cap 1 --trust trust.toml
    """
    try:
        if node in (ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME, SHUFFLER_NAME):
            raise BadInput(f"{node!r} cannot name a user node: the name is reserved")
        signer = Signer(secrets.token_bytes(SECRET_BYTES)) if signing_key is None else read_signer(signing_key)
        if (count is None) == (not columns):
            raise BadInput("say what the values are: give --inputs K, or --column for each column")
        declared = [read_column(each) for each in columns]
        listed = {} if trust is None else read_trust(trust)
        own_board = "board" if shard is None else board_of(shard)
        for name in dict.fromkeys(("analyst", "board", own_board, *(["shuffler"] if trust_shuffler else []))):
            if trust is not None and name not in listed:
                raise BadInput(f"{trust} does not list the {name}'s signing key; add it")
        if trust_shuffler and (trust is None or shuffler_key is None):
            raise BadInput("users who trust a shuffler must know it: give --trust and --shuffler-key")
        links = {} if shuffler_key is None else {name: key for key, name in read_allowed(shuffler_key).items()}
        if shuffler_key is not None and set(links) != {"shuffler"}:
            raise BadInput(f"{shuffler_key} must hold the shuffler's public key and no other; see `parley keys`")
        head = b"" if shard is None else listed.get("board", b"")
        consent = Consent(
            run=run,
            domain=domain_of(math.prod(each.levels for each in declared) if count is None else count, declared),
            cap=cap,
            delta=delta_cap,
            trusts="shuffler" if trust_shuffler else "nobody",
            analyst=listed.get("analyst", b""),
            board=listed.get(own_board, b""),
            head=head,
            shard=shard if shard and head else "",
            shuffler=listed.get("shuffler", b"") if trust_shuffler else b"",
            shuffler_link=links.get("shuffler", ""),
        )
        if listed.get(node, signer.public) != signer.public:
            raise BadInput(f"{trust} lists another signing key for {node}; give it with --signing-key")
        keys = {"coin_key": fresh_key(), "signing_key": signer.secret}
        State.create(state, Identity(node=node, first=first, users=users, consent=consent, **keys))
    except BadInput as error:
        raise click.exceptions.Exit(complain(error, BAD_INPUT)) from None
    click.echo(f'"{node}" = "{signer.public.hex()}"')


if __name__ == "__main__":
    main()
