"""`parley run`: start everybody, watch, and say what came out."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import click

from parley.emulator.errors import BadInput
from parley.emulator.wire.sealing import new_secret
from parley.launch.api import USUAL_PROCESSES
from parley.launch.cluster.cluster import Cluster, Hosts
from parley.launch.cluster.dask import Farm, Workers
from parley.launch.cluster.fault_driver import find_conditions
from parley.launch.cluster.layout import LOOPBACK
from parley.launch.problem import ProblemFlags, make_problem, problem_options
from parley.launch.processes.command_lines import CROWD
from parley.launch.processes.processes import Processes
from parley.launch.results.answer import Answer
from parley.launch.results.progress import make_progress
from parley.launch.results.reporting import reporting
from parley.launch.settings import Stopped, debug_option
from parley.protocols.shuffle.sealed import sealed


@click.command()
@problem_options
@click.option(
    "--processes",
    type=int,
    metavar="P",
    help="User nodes that share the users.  [default: at most 4, or one per worker]",
)
@click.option("--process-per-user", is_flag=True, help="Give every user a process of its own.")
@click.option("--relays", default=0, metavar="R", help="Number of relays between user nodes and the board.")
@click.option("--on", metavar="dask://HOST:PORT", help="Place the user nodes on the workers of this Dask cluster.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the run instead of runs/<time>-<name>.")
@click.option("--name", help="Name of the run.  [default: statistic and protocol]")
@click.option("--deadline", default=600.0, show_default=True, help="Seconds that a round may last.")
@click.option("--quorum", default=1.0, show_default=True, help="Share of users a round needs at its deadline.")
@click.option("--port", type=int, help="First of three ports of the board on loopback.  [default: free ones]")
@click.option(
    "--conditions", metavar="FILE|NAME", help="Faults to inject: a TOML file, or the name of a ready-made one."
)
@click.option("--restarts", default=3, show_default=True, help="How often to restart a node that was killed.")
@click.option("--keys", type=click.Path(path_type=Path), help="Encrypt every link with the keys of this folder.")
@click.option("--secure", is_flag=True, help="Encrypt every link with fresh keys.")
@click.option(
    "--wallet", type=click.Path(path_type=Path), help="Folder that counts what users give away over many runs."
)
@click.option(
    "--signed/--unsigned",
    default=None,
    help=f"Sign what is said, so that the record proves it.  [default: signed, below {CROWD} plain processes]",
)
@click.option("--seal", is_flag=True, help="Seal replies for the analyst, so that the shuffler cannot read them.")
@click.option("--watch", is_flag=True, help="Serve a live page on this machine while the run goes on.")
@click.option("--json", "as_json", is_flag=True, help="Print the result record.")
@click.option("--quiet", is_flag=True, help="Hide progress.")
@debug_option
def run(
    flags: ProblemFlags,
    processes: int | None,
    process_per_user: bool,
    relays: int,
    on: str | None,
    out: Path | None,
    name: str | None,
    deadline: float,
    quorum: float,
    port: int | None,
    conditions: str | None,
    restarts: int,
    keys: Path | None,
    secure: bool,
    wallet: Path | None,
    signed: bool | None,
    seal: bool,
    watch: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run a protocol between processes on this machine and print the estimate."""
    # The process that forks nodes warms up while the problem is read.
    with Processes() as started, _place(on) as place:
        problem = make_problem(flags)
        protocol = problem.protocol(flags.protocol, flags.epsilon, delta=flags.delta, quorum=quorum, seed=flags.seed)
        opening_key = new_secret() if seal else b""
        count = _processes(processes, process_per_user, problem.users, place.nodes)
        layout = problem.layout(
            sealed(protocol, opening_key) if seal else protocol,
            seed=flags.seed,
            processes=count,
            deadline=deadline,
            quorum=quorum,
            port=port,
            conditions=None if conditions is None else find_conditions(conditions),
            restarts=restarts,
            relays=relays,
            host=place.address,
            elsewhere=place.hosts is not None,
            keys=None if keys is None else keys.absolute(),
            secure=secure or (keys is None and place.exposed),
            opening_key=opening_key,
            signed=_signs(signed, count, encrypted=keys is not None or secure or place.exposed),
            wallet=None if wallet is None else wallet.absolute(),
        )
        folder = problem.folder(out, layout.protocol, name)
        if flags.seed is not None:
            click.echo("parley: with --seed the noise is known in advance, so this run is not private", err=True)
        for column, count in problem.clipped.items():
            click.echo(f"parley: {count} values of {column} lie outside its declared range and were clipped", err=True)
        with reporting(folder, watch=watch) as report:

            def conclude() -> None:
                summary = cluster.follower.summary
                answers.append(problem.answer(summary, layout.protocol, flags.seed, folder.path))
                folder.write_result(answers[0].record())
                report()

            answers: list[Answer] = []
            with _stoppable(), make_progress(quiet=quiet) as progress:
                cluster = Cluster(layout, folder, progress, place.hosts, started)
                cluster.run(conclude)
            click.echo(json.dumps(answers[0].record(), indent=2) if as_json else str(answers[0]))
            if answers[0].silent:
                click.echo(
                    f"parley: wallets refused {answers[0].silent} replies; which ones refuse depends on what they said "
                    "before, and the interval does not cover that",
                    err=True,
                )


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where user nodes run, the address at which they find the board, and how many there are unless somebody says."""

    hosts: Hosts | None = None
    address: str = LOOPBACK
    nodes: int = USUAL_PROCESSES

    @property
    def exposed(self) -> bool:
        """Whether other machines reach the board, so that it needs keys."""
        return not ip_address(self.address).is_loopback


@contextmanager
def _place(on: str | None) -> Iterator[Place]:
    """This machine, or the workers of a cluster."""
    if on is None:
        yield Place()
        return
    with Workers(on) as workers:
        workers.check()
        yield Place(hosts=Farm(workers), address=workers.own_address(), nodes=len(workers.names))


def _processes(wanted: int | None, per_user: bool, users: int, usual: int) -> int:
    if per_user and wanted is not None:
        raise BadInput("--processes and --process-per-user contradict each other; give one of them")
    if per_user:
        return users
    return min(usual, users) if wanted is None else wanted


def _signs(asked: bool | None, processes: int, *, encrypted: bool) -> bool:
    """Everybody signs, unless a crowd of plain processes does: there it takes a fifth more time and proves little,
    because all keys are the launcher's."""
    return (encrypted or processes < CROWD) if asked is None else asked


@contextmanager
def _stoppable() -> Iterator[None]:
    """Inside, SIGTERM raises, so that whoever holds processes lets go of them."""

    def stop(*_: object) -> None:
        raise Stopped("stopped by SIGTERM")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
