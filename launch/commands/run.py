"""`parley run`: start everybody, watch, and say what came out."""

import json
import signal
from contextlib import nullcontext
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput
from parley.emulator.wire.sealing import new_secret
from parley.emulator.wire.signatures import derived
from parley.launch.api import USUAL_PROCESSES, coin_key
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.dask import Farm, Workers
from parley.launch.cluster.fault_driver import find_conditions, ready_made
from parley.launch.cluster.in_memory import MemoryCluster
from parley.launch.cluster.layout import LOOPBACK
from parley.launch.problem import ProblemFlags, make_problem, problem_options
from parley.launch.processes.command_lines import CROWD
from parley.launch.processes.processes import Processes
from parley.launch.results.answer import Answer
from parley.launch.results.effort import warning
from parley.launch.results.progress import Working, make_progress
from parley.launch.results.reporting import reporting
from parley.launch.settings import Stopped, command_seconds, complete, output_options, path_option, signals
from parley.protocols.shuffle.sealed import sealed


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
@click.option("--in-memory", is_flag=True, help="Run in this process and in virtual time; a seed repeats every byte.")
@click.option("--on", metavar="dask://HOST:PORT", help="Place the user nodes on the workers of this Dask cluster.")
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
@click.option("--quiet", is_flag=True, help="Hide progress.")
@output_options("the result record")
def run(
    flags: ProblemFlags,
    processes: int | None,
    process_per_user: bool,
    in_memory: bool,
    on: str | None,
    out: Path | None,
    name: str | None,
    quorum: float,
    conditions: str | None,
    keys: Path | None,
    secure: bool,
    wallet: Path | None,
    signed: bool | None,
    seal: bool,
    watch: bool,
    as_json: bool,
    quiet: bool,
    **terms: Any,
) -> None:
    """Run a protocol between processes on this machine and print the estimate."""
    if in_memory and watch:
        raise BadInput("--in-memory is over before anybody could watch; leave out --watch and open its report")
    # The process that forks nodes warms up while the problem is read.
    with (
        nullcontext() if in_memory else Processes() as started,
        nullcontext() if on is None else Workers(on) as workers,
    ):
        hosts, address, usual = None, LOOPBACK, USUAL_PROCESSES
        if workers is not None:
            workers.check()
            hosts, address, usual = Farm(workers), workers.own_address(), len(workers.names)
        with Working("reading the data", quiet=quiet):
            problem = make_problem(flags)
        if (slow := warning(problem.question, flags.protocol)) is not None:
            click.echo(f"parley: {slow}", err=True)
        with Working("choosing a protocol", quiet=quiet):
            protocol = problem.protocol(
                flags.protocol, flags.epsilon, delta=flags.delta, quorum=quorum, seed=flags.seed
            )
        opening_key = b""
        if seal:
            opening_key = new_secret() if flags.seed is None else derived(coin_key(flags.seed), "opening").secret
        if process_per_user and processes is not None:
            raise BadInput("--processes and --process-per-user contradict each other; give one of them")
        many = problem.users if process_per_user else min(usual, problem.users) if processes is None else processes
        # Where other machines reach the board, it needs keys.
        secure = secure or (keys is None and not ip_address(address).is_loopback)
        if signed is None:
            # Everybody signs, unless a crowd of plain processes does: there it takes a fifth more time and proves
            # little, because all keys are the launcher's.
            signed = keys is not None or secure or many < CROWD
        layout = problem.layout(
            sealed(protocol, opening_key) if seal else protocol,
            seed=flags.seed,
            processes=many,
            quorum=quorum,
            conditions=None if conditions is None else find_conditions(conditions),
            host=address,
            elsewhere=hosts is not None,
            keys=None if keys is None else keys.absolute(),
            secure=secure,
            opening_key=opening_key,
            signed=signed,
            wallet=None if wallet is None else wallet.absolute(),
            in_memory=in_memory,
            **terms,
        )
        folder = problem.folder(out, layout.protocol, name, in_memory=in_memory)
        if flags.seed is not None:
            click.echo("parley: with --seed the noise is known in advance, so this run is not private", err=True)
        for column, count in problem.clipped.items():
            click.echo(f"parley: {count} values of {column} lie outside its declared range and were clipped", err=True)
        if problem.dropped:
            click.echo(f"parley: {problem.dropped} rows without a value were left out", err=True)
        with reporting(folder, watch=watch) as report:

            def conclude() -> None:
                summary = cluster.follower.summary
                answers.append(problem.answer(summary, layout.protocol, flags.seed, folder.path))
                folder.write_result(answers[0].record())
                report()

            def stop(*_: object) -> None:
                raise Stopped("stopped by SIGTERM")

            answers: list[Answer] = []
            # SIGTERM raises, so that whoever holds processes lets go of them.
            with signals(stop, signal.SIGTERM), make_progress(quiet=quiet) as progress:
                cluster = (
                    MemoryCluster(layout, folder, progress, flags.seed)
                    if in_memory
                    else Cluster(layout, folder, progress, hosts, started)
                )
                cluster.run(conclude)
            shown = replace(answers[0], command_seconds=command_seconds())
            click.echo(json.dumps(shown.record(), indent=2) if as_json else str(shown))
            if answers[0].silent:
                click.echo(
                    f"parley: wallets refused {answers[0].silent} replies; which ones refuse depends on what they said "
                    "before, and the interval does not cover that",
                    err=True,
                )
