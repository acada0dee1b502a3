"""`parley node`: the processes of a run, each to be started by hand on its own host."""

from importlib import import_module

import click

NODES = {
    "board": "Number every message, write it down, deliver it.",
    "analyst": "Ask in rounds, fold the replies, say the estimate.",
    "init": "Make the state of a user node: its keys, and what its users agree to.",
    "user": "Host users, defend them, answer each round once.",
    "relay": "Pass the frames of many user nodes on to the board, and broadcasts to them.",
    "shuffler": "Gather replies, forget who sent them, post them mixed.",
}


class Nodes(click.Group):
    """`python -m nodes.<name>` under one roof."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(NODES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in NODES:
            return None
        command = import_module(f"parley.nodes.{name}").main
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(NODES.items()))


@click.command(cls=Nodes)
def node() -> None:
    """Start a board, an analyst, a user node, a relay or a shuffler by hand; make a user node's state."""
