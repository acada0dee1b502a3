"""`parley run`: start everybody, watch, and say what came out."""

import json
from dataclasses import replace
from typing import Any

import click

from parley.launch.cluster.fault_driver import ready_made
from parley.launch.problem import ProblemFlags, make_problem, problem_options
from parley.launch.processes.command_lines import CROWD
from parley.launch.running import hold_run
from parley.launch.settings import command_seconds, complete, output_options, path_option


@click.command(epilog="Example: parley run --statistic kendall --levels 8x8 --epsilon 4 --users 2000")
@problem_options
@click.option(
    "--processes",
    type=int,
    metavar="P",
    help="User nodes that share the users.  [default: at most 4, or one per worker]",
)
@click.option("--process-per-user", is_flag=True, help="Give every user a process of its own.")
@click.option("--relays", default=0, metavar="R", help="Number of relays between user nodes and the board.")
@click.option("--shards", default=0, metavar="S", help="Number of boards, each with its own users and record.")
@click.option("--in-memory", is_flag=True, help="Run in this process and in virtual time; a seed repeats every byte.")
@click.option("--on", metavar="dask://HOST:PORT", help="Place user nodes and boards of shards on this Dask cluster.")
@path_option("--out", help="Folder for the run instead of runs/<time>-<name>.")
@click.option("--name", help="Name of the run.  [default: statistic and protocol]")
@click.option("--deadline", default=600.0, show_default=True, help="Seconds that a round may last.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users a round needs at its deadline.")
@click.option("--port", type=int, help="First of three ports of the board on loopback.  [default: free ones]")
@click.option(
    "--conditions",
    metavar="FILE|NAME",
    help=f"Faults to inject: a TOML file, or one of {', '.join(ready_made())}.",
    shell_complete=complete(ready_made),
)
@click.option("--restarts", default=3, show_default=True, help="How often to restart a node that was killed.")
@path_option("--keys", help="Encrypt every link with the keys of this folder.")
@click.option("--secure", is_flag=True, help="Encrypt every link with fresh keys.")
@path_option("--wallet", help="Folder that counts what users give away over many runs.")
@click.option(
    "--signed/--unsigned",
    default=None,
    help=f"Sign what is said, so that the record proves it.  [default: signed, below {CROWD} plain processes]",
)
@click.option("--seal", is_flag=True, help="Seal replies for the analyst, so that the shuffler cannot read them.")
@click.option("--watch", is_flag=True, help="Serve a live page on this machine while the run goes on.")
@click.option("--open", "open_page", is_flag=True, help="Open the report, or with --watch the live page, in a browser.")
@click.option("--quiet", is_flag=True, help="Hide progress.")
@output_options("the result record")
def run(flags: ProblemFlags, as_json: bool, **options: Any) -> None:
    """Run a protocol between processes on this machine and print the estimate."""

    def say(text: str) -> None:
        click.echo(f"parley: {text}", err=True)

    options |= {name: getattr(flags, name) for name in ("epsilon", "protocol", "delta", "seed")}
    answer = hold_run(lambda: make_problem(flags), say, **options)
    shown = replace(answer, command_seconds=command_seconds(), virtual=options["in_memory"])
    click.echo(json.dumps(shown.record(), indent=2) if as_json else str(shown))
