"""A run from its problem to its answer: what `parley run` and `Problem.run` both do."""

import signal
from collections.abc import Callable
from contextlib import nullcontext
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.transport.unread import give_back
from parley.emulator.wire.sealing import new_secret
from parley.emulator.wire.signatures import derived
from parley.launch.api import USUAL_PROCESSES, Problem, coin_key
from parley.launch.cluster.cluster import Cluster
from parley.launch.cluster.dask import Farm, Workers
from parley.launch.cluster.fault_driver import find_conditions
from parley.launch.cluster.layout import LOOPBACK
from parley.launch.cluster.worker_processes import host_of
from parley.launch.processes.command_lines import CROWD
from parley.launch.processes.processes import Processes
from parley.launch.results.answer import Answer
from parley.launch.results.display.effort import warning
from parley.launch.results.display.progress import Working, make_progress
from parley.launch.results.display.wording import source_words
from parley.launch.results.reporting import reporting
from parley.launch.settings import Stopped, signals
from parley.protocols.shuffle.sealed import sealed
from parley.protocols.tuned.codebook_round import forget_tables


def hold_run(
    make: Callable[[], Problem],
    say: Callable[[str], None],
    *,
    epsilon: float,
    protocol: str = "auto",
    delta: float | None = None,
    seed: int | None = None,
    processes: int | None = None,
    process_per_user: bool = False,
    in_memory: bool = False,
    on: str | None = None,
    out: str | Path | None = None,
    name: str | None = None,
    quorum: float = 1.0,
    conditions: str | Path | None = None,
    keys: str | Path | None = None,
    secure: bool = False,
    wallet: str | Path | None = None,
    signed: bool | None = None,
    seal: bool = False,
    watch: bool = False,
    open_page: bool = False,
    quiet: bool = False,
    **terms: Any,
) -> Answer:
    """Start everybody, watch, and give what came out. `say` is told what a person should know besides.

    The process that forks nodes warms up while `make` reads the problem. `terms` are further fields of a `Layout`.
    """
    if in_memory and watch:
        raise BadInput("--in-memory is over before anybody could watch; leave out --watch and open its report")
    with (
        nullcontext() if in_memory else Processes() as started,
        nullcontext() if on is None else Workers(on) as workers,
    ):
        hosts, address, usual, boards_at = None, LOOPBACK, USUAL_PROCESSES, list[str]()
        if workers is not None:
            workers.check()
            hosts, address, usual = Farm(workers), workers.own_address(), len(workers.names)
            if terms.get("shards"):
                boards_at = [host_of(worker) for worker in workers.names]
        with Working("reading the data", quiet=quiet):
            problem = make()
        give_back()
        if problem.bins is None and (slow := warning(problem.question, protocol)) is not None:
            say(slow)
        with Working("choosing a protocol", quiet=quiet):
            chosen = problem.protocol(protocol, epsilon, delta=delta, quorum=quorum, seed=seed)
        forget_tables()
        give_back()
        opening_key = b""
        if seal:
            opening_key = new_secret() if seed is None else derived(coin_key(seed), "opening").secret
        if process_per_user and processes is not None:
            raise BadInput("--processes and --process-per-user contradict each other; give one of them")
        many = problem.users if process_per_user else min(usual, problem.users) if processes is None else processes
        # Where other machines reach a board, it needs keys.
        exposed = not all(ip_address(each).is_loopback for each in (address, *boards_at))
        secure = secure or (keys is None and exposed)
        if signed is None:
            # Everybody signs, unless a crowd of plain processes does: there it takes a fifth more time and proves
            # little, because all keys are the launcher's.
            signed = keys is not None or secure or many < CROWD
        layout = problem.layout(
            sealed(chosen, opening_key) if seal else chosen,
            seed=seed,
            processes=many,
            quorum=quorum,
            conditions=None if conditions is None else find_conditions(str(conditions)),
            host=address,
            elsewhere=hosts is not None,
            keys=None if keys is None else Path(keys).absolute(),
            secure=secure,
            opening_key=opening_key,
            signed=signed,
            wallet=None if wallet is None else Path(wallet).absolute(),
            in_memory=in_memory,
            **terms,
        )
        folder = problem.folder(None if out is None else Path(out), layout.protocol, name, in_memory=in_memory)
        if seed is not None:
            say("with --seed the noise is known in advance, so this run is not private")
        for told in source_words(problem.source):
            say(told)
        known = layout.witness(folder.run)
        with reporting(folder, watch=watch, open_page=open_page, witness=known) as report:

            def conclude() -> None:
                summary = cluster.follower.summary
                answers.append(problem.answer(summary, layout.protocol, seed, folder.path))
                folder.write_result(answers[0].record())
                # The story is whole once nothing more will be recorded.
                report(cluster.follower.story if cluster.follower.closed else None)

            def stop(*_: object) -> None:
                raise Stopped("stopped by SIGTERM")

            answers: list[Answer] = []
            # SIGTERM raises, so that whoever holds processes lets go of them.
            with signals(stop, signal.SIGTERM), make_progress(quiet=quiet) as progress:
                if in_memory:
                    from parley.launch.cluster.in_memory import MemoryCluster

                    cluster: Cluster = MemoryCluster(layout, folder, progress, seed)
                else:
                    cluster = Cluster(layout, folder, progress, hosts, started)
                cluster.run(conclude)
            if answers[0].silent:
                say(
                    f"wallets refused {answers[0].silent} replies; which ones refuse depends on what they said before, "
                    "and the interval does not cover that"
                )
            return answers[0]
