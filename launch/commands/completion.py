"""`parley completion`: completion for bash, zsh and fish, from click's own machinery."""

import click
from click.shell_completion import get_completion_class

from parley.launch.settings import debug_option

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@debug_option
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; put `eval "$(parley completion bash)"` into its start-up file."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "parley", "_PARLEY_COMPLETE").source())
