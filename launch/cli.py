"""`parley`: finds the command, runs it, and turns what went wrong into one sentence and an exit code."""

import difflib
import os
import re
import signal
import sys
import traceback
from importlib import import_module

import click
from click.shell_completion import get_completion_class

from parley.emulator.errors import BadInput, ParleyError
from parley.launch import settings
from parley.launch.processes.system import keep_freed_memory
from parley.launch.results.display.printable import printable
from parley.nodes.environment import SINGLE_THREADED

# A command is loaded only when it is called, so that `parley --help` is quick: from launch/commands/<name>.py, or from
FILES = {
    "diff": "commands.replay",
    "export": "commands.show",
    "keys": "commands.hosts",
    "inputs": "commands.hosts",
    "new-protocol": "commands.protocols",
    "node": "cli",
    "completion": "cli",
    "help": "help",
}
COMMANDS = {
    "run": "Run a protocol between processes on this machine.",
    "plan": "Predict every protocol's error, bytes and rounds for a problem.",
    "sweep": "Measure protocols in memory against what they predict.",
    "test": "Test a protocol: contract, accuracy, schedules, real processes under faults.",
    "audit": "Check what a run's record proves: integrity, rounds, exact privacy loss, result.",
    "replay": "Run a recorded conversation again and show the first difference.",
    "report": "Make the page about a run: one HTML file with pictures.",
    "diff": "Compare two runs reply by reply.",
    "export": "Write the replies of a run as JSON Lines, CSV or Parquet.",
    "protocols": "List the protocols there are, or show one round by round.",
    "new-protocol": "Write a file with a protocol of your own that runs.",
    "show": "Show the records of a transcript.",
    "wallet": "Cap what users give away over many runs, and show what is left.",
    "keys": "Make keys for encrypted links and signatures.",
    "inputs": "Turn columns of a file into the inputs of a user node.",
    "node": "Start a board, an analyst or a user node by hand.",
    "help": "Explain a topic: statistics, data, epsilon, conditions, files, exit codes.",
    "completion": "Print the script that completes `parley` in your shell.",
}
NODES = {
    "board": "Number every message, write it down, deliver it.",
    "analyst": "Ask in rounds, fold the replies, say the estimate.",
    "init": "Make the state of a user node: its keys, and what its users agree to.",
    "user": "Host users, defend them, answer each round once.",
    "sub-analyst": "Answer for a shard of a run that has several boards.",
    "relay": "Pass the frames of many user nodes on to the board, and broadcasts to them.",
    "shuffler": "Gather replies, forget who sent them, post them mixed.",
}
WELCOME = """Parley runs private protocols as real conversations. Three commands to start:

  parley plan --statistic kendall --levels 8x8 --epsilon 1 --users 50000
      Which protocol is best for my statistic, my users and my epsilon?

  parley run --statistic kendall --levels 8x8 --epsilon 4 --users 2000
      Run it between real processes, everything on record.

  parley audit runs/latest
      What does the record prove about rounds, privacy and the result?

`parley --help` lists all commands; `parley COMMAND --help` explains one and
shows an example; `parley help` lists topics such as data and epsilon."""


class Nodes(click.Group):
    """`python -m nodes.<name>` under one roof."""

    table = NODES

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in NODES:
            return None
        command = import_module(f"parley.nodes.{name.replace('-', '_')}").main
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.table.items()))


@click.command(cls=Nodes, epilog="Example: parley node user --help")
def node() -> None:
    """Start a board, an analyst, a user node, a relay or a shuffler by hand; make a user node's state."""


@click.command(epilog="Example: parley completion bash")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@settings.debug_option
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL; put `eval "$(parley completion bash)"` into its start-up file."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "parley", "_PARLEY_COMPLETE").source())


class Commands(Nodes):
    table = COMMANDS

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "`parley --help` lists them all"
            raise BadInput(f"there is no command {name!r}; {hint}")
        command = getattr(import_module(f"parley.launch.{FILES.get(name, f'commands.{name}')}"), name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command


@click.command(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(settings.release(), prog_name="parley")
@settings.debug_option
@click.pass_context
def parley(context: click.Context) -> None:
    """Interactive local-differential-privacy protocols as messages between processes.

    Exit codes: 0 good; 1 a check failed; 2 bad usage or bad input; 3 the run could not finish.
    """
    if context.invoked_subcommand is None:
        click.echo(WELCOME)


def sentence(error: BaseException) -> str:
    """What is said about an error: one line."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "interrupted"
    text = usage(error) if isinstance(error, click.ClickException) else str(error)
    return printable(" ".join(text.split()))


def usage(error: click.ClickException) -> str:
    """What click says, in the words of our own errors: what was given, what is allowed."""
    parameter = getattr(error, "param", None)
    if isinstance(error, click.MissingParameter) and parameter is not None:
        named = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
        command = error.ctx.command_path if error.ctx is not None else "parley"
        return f"{named} is missing; `{command} --help` explains it"
    if isinstance(error, click.NoSuchOption):
        near = difflib.get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.7)
        return f"there is no option {error.option_name}{f'; did you mean {near[0]}?' if near else ''}"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return f"`{error.ctx.command_path}` needs a command; `{error.ctx.command_path} --help` lists them"
    text = error.format_message()
    for theirs, ours in (
        (r"Invalid value for '(--[a-z-]+)': ", r"\1 "),
        (r"Invalid value for '[^']*': ", ""),
        (r"is not a valid float(?: range)?\.", "is not a number"),
        (r"is not a valid integer(?: range)?\.", "is not a whole number"),
        (r"Option '(--[a-z0-9-]+)' requires an argument\.?", r"\1 needs a value"),
        (r"Got unexpected extra arguments? \((.*)\)", r"there is no place for \1; `--help` shows what is taken"),
        (r"(\S+) is not in the range x>=(\S+?)\.?$", r"\1 cannot be used; give \2 or more"),
        (r"Option '(--[a-z0-9-]+)' does not take a value", r"\1 takes no value"),
        (r"No such command '?([^']*)'?\.?", r"there is no command '\1'; `--help` lists them all"),
        (r"\.$", ""),
    ):
        text = re.sub(theirs, ours, text)
    listed = re.fullmatch(r"(.*is not one of )('.*')", text)
    return text if listed is None else listed[1] + listed[2].replace("'", "")


def run(arguments: list[str] | None = None) -> int:
    """Run a command line; the exit code."""
    given = settings.Settings()
    # Matrices of a plan or a report are too small to share out: with a thread per core a plan takes several times the
    # processor time, and on a busy machine as many times as long. Who sets these variables gets what they say.
    for name, threads in SINGLE_THREADED.items():
        os.environ.setdefault(name, threads)
    keep_freed_memory()
    try:
        returned = parley.main(args=arguments, prog_name="parley", standalone_mode=False, obj=given)
    except (ParleyError, click.ClickException, click.Abort, KeyboardInterrupt, settings.Stopped) as error:
        if given.debug:
            traceback.print_exc()
        print(f"parley: {sentence(error)}", file=sys.stderr)
        if isinstance(error, BadInput | click.UsageError):
            return settings.BAD_INPUT
        if isinstance(error, KeyboardInterrupt | click.Abort):
            return settings.INTERRUPTED
        return settings.TERMINATED if isinstance(error, settings.Stopped) else settings.UNFINISHED
    except BrokenPipeError:
        # The reader of our output has gone (`parley show | head`); nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return settings.GOOD
    return returned if isinstance(returned, int) else settings.GOOD


def main() -> None:
    """The console script. Who interrupts twice gets the same exit code as who does so once."""
    try:
        code = run()
    except KeyboardInterrupt:
        code = settings.INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


if __name__ == "__main__":
    main()
