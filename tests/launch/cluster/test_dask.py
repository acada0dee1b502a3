"""User nodes on the workers of a real Dask cluster: the same replies, a worker that is lost, hosts of their own."""

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parley.emulator.record.shards import read_run
from parley.emulator.wire.messages import Message, Replies, Result
from parley.launch.cluster.dask import Task, Workers
from tests.launch.conftest import ROOT, Parley
from tests.launch.dask_cluster import ENVIRONMENT, DaskCluster
from tests.launch.processes.test_forkserver import until
from tests.launch.recovery import estimates, events, recorded, replies
from tests.launch.test_interrupt import on_record
from tests.launch.test_netns import ip, obstacle

SMALL = ("--statistic", "gini-diversity", "--levels", 4, "--users", 90, "--epsilon", 2, "--seed", 3, "--quiet")
# Enough work in each round that a kill comes before its end.
LARGE = ("--statistic", "kendall", "--levels", "16x16", "--users", 40_000, "--epsilon", 4, "--seed", 3)
PROBLEM = ("--statistic", "gini-diversity", "--levels", 4, "--users", 300, "--epsilon", 1, "--seed", 5)
SWEEP = ("sweep", *PROBLEM, "--protocol", "two-round", "--trials", 120, "--quiet", "--json")
SPOKEN = ("--protocol", "three-round")
COMMAND = (sys.executable, "-m", "parley.launch.cli")
# Addresses that RFC 5737 keeps for examples; they exist only inside the namespaces.
LAUNCHER, FIRST, SECOND = "192.0.2.1", "198.51.100", "203.0.113"


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    cluster = DaskCluster(tmp_path_factory.mktemp("dask"))
    try:
        cluster.start_scheduler()
        yield cluster
    finally:
        cluster.end()


@pytest.fixture(scope="module")
def cluster(scheduler: DaskCluster) -> DaskCluster:
    for name in ("first", "second"):
        scheduler.start_worker(name)
    return scheduler


def test_a_cluster_without_workers_is_refused(scheduler: DaskCluster, parley: Parley, tmp_path: Path) -> None:
    answer = parley("run", *SMALL, "--on", scheduler.address, "--out", tmp_path / "run")
    assert (answer.code, (tmp_path / "run").exists()) == (2, False)
    assert "has no workers" in answer.err


@pytest.mark.parametrize(
    ("on", "said"), [("dask://127.0.0.1:1", "no Dask scheduler answers"), ("slurm://there", "names no cluster")]
)
def test_what_is_no_cluster_is_refused(
    parley: Parley, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str, said: str
) -> None:
    monkeypatch.setattr("parley.launch.cluster.dask.ANSWER_SECONDS", 1)
    answer = parley("run", *SMALL, "--on", on, "--out", tmp_path / "run")
    assert (answer.code, (tmp_path / "run").exists()) == (2, False)
    assert said in answer.err


def test_workers_host_the_nodes_and_change_no_reply(cluster: DaskCluster, parley: Parley, tmp_path: Path) -> None:
    assert parley("run", *SMALL, *SPOKEN, "--processes", 2, "--out", tmp_path / "here").code == 0
    answer = parley("run", *SMALL, *SPOKEN, "--on", cluster.address, "--processes", 5, "--out", tmp_path / "there")
    assert answer.code == 0, answer.err
    here, there = recorded(tmp_path / "here"), recorded(tmp_path / "there")
    assert replies(there) == replies(here)
    assert estimates(there) == estimates(here)
    assert parley("audit", tmp_path / "there", "--quiet").code == 0


def test_nodes_on_workers_speak_to_the_board_of_their_shard(
    cluster: DaskCluster, parley: Parley, tmp_path: Path
) -> None:
    assert parley("run", *SMALL, *SPOKEN, "--processes", 2, "--out", tmp_path / "here").code == 0
    there = ("--on", cluster.address, "--processes", 4, "--shards", 2, "--out", tmp_path / "there")
    answer = parley("run", *SMALL, *SPOKEN, *there)
    assert answer.code == 0, answer.err
    assert parley("diff", tmp_path / "here", tmp_path / "there").code == 0
    assert parley("audit", tmp_path / "there", "--quiet").code == 0


def test_relays_and_workers_contradict_each_other(cluster: DaskCluster, parley: Parley, tmp_path: Path) -> None:
    answer = parley("run", *SMALL, "--on", cluster.address, "--relays", 1, "--out", tmp_path / "run")
    assert (answer.code, (tmp_path / "run").exists()) == (2, False)


def same(here: Any, there: Any) -> None:
    """Two sweeps found the same, up to the order in which squares were added."""
    for mine, theirs in zip(here, there, strict=True):
        assert theirs.pop("rmse") == pytest.approx(mine.pop("rmse"), rel=1e-12)
        assert theirs == mine


def test_a_sweep_on_workers_finds_what_a_sweep_here_finds(cluster: DaskCluster, parley: Parley) -> None:
    same(parley(*SWEEP, "--processes", 1).record, parley(*SWEEP, "--on", cluster.address).record)


def under_way(folder: Path) -> bool:
    """Replies are on record, and the run goes on."""
    messages = on_record(folder)
    assert not any(isinstance(each, Result) for each in messages), "the run was too fast to be disturbed"
    return any(isinstance(each, Replies) for each in messages)


def disturbed(
    cluster: DaskCluster,
    doomed: str,
    folder: Path,
    inside: tuple[str, ...] = (),
    more: tuple[object, ...] = (),
    record: Path | None = None,
) -> list[Message]:
    """What is on record of a run in which this worker is killed; `record`: the folder that tells when."""
    out, log = folder / "run", folder / "log"
    words = ("run", *LARGE, *SPOKEN, "--on", cluster.address, "--processes", 3, "--out", out, *more)
    with log.open("wb") as file:
        command = [*inside, *COMMAND, *map(str, words)]
        run = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=file, stderr=file)
    try:
        until(lambda: out.exists() and under_way(out if record is None else record))
        cluster.processes[doomed].send_signal(signal.SIGKILL)
        assert run.wait(200) == 0, log.read_text()
    finally:
        run.kill()
        run.wait()
    return recorded(out)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """The same run on this machine, undisturbed."""
    out = tmp_path_factory.mktemp("calm") / "run"
    words = ("run", *LARGE, *SPOKEN, "--processes", 2, "--out", out, "--quiet")
    subprocess.run([*COMMAND, *map(str, words)], cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=True)
    return recorded(out)


def test_nodes_of_a_lost_worker_are_placed_again(cluster: DaskCluster, calm: list[Message], tmp_path: Path) -> None:
    cluster.start_worker("doomed")
    messages = disturbed(cluster, "doomed", tmp_path)
    assert [each.node for each in events(messages, "restart") if "was lost" in each.detail] == ["launcher"]
    assert replies(messages) == replies(calm)
    assert estimates(messages) == estimates(calm)


def test_keys_inputs_and_coins_have_no_representation(cluster: DaskCluster) -> None:
    assert Task.__repr__ is object.__repr__
    with Workers(cluster.address) as workers:
        workers.check()
        assert workers.own_address() == "127.0.0.1"


@pytest.fixture(scope="module")
def three_hosts() -> Iterator[tuple[str, str, str]]:
    """A namespace for the launcher and two for workers, each of them joined to the first by a link of its own."""
    reason = obstacle()
    if reason and os.environ.get("PARLEY_REQUIRE_NETNS"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    name = f"parley-{secrets.token_hex(3)}"
    home, *others = (f"{name}-{letter}" for letter in "abc")
    try:
        for namespace in (home, *others):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        ip("-n", home, "address", "add", f"{LAUNCHER}/32", "dev", "lo")
        for namespace, network in zip(others, (FIRST, SECOND), strict=True):
            wire = f"wire-{namespace[-1]}"
            ip("-n", home, "link", "add", wire, "type", "veth", "peer", "name", "wire", "netns", namespace)
            ip("-n", home, "address", "add", f"{network}.1/24", "dev", wire)
            ip("-n", home, "link", "set", wire, "up")
            ip("-n", namespace, "address", "add", f"{network}.2/24", "dev", "wire")
            ip("-n", namespace, "link", "set", "wire", "up")
            ip("-n", namespace, "route", "add", LAUNCHER, "via", f"{network}.1")
        yield home, others[0], others[1]
    finally:
        for namespace in (home, *others):
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def within(namespace: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", namespace)


@pytest.fixture(scope="module")
def far(three_hosts: tuple[str, str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """A scheduler on the launcher's host and a worker on each of the others."""
    home, first, second = three_hosts
    cluster = DaskCluster(tmp_path_factory.mktemp("far"))
    try:
        cluster.start_scheduler(LAUNCHER, within(home))
        cluster.start_worker("first", f"{FIRST}.2", within(first))
        cluster.start_worker("second", f"{SECOND}.2", within(second))
        yield cluster
    finally:
        cluster.end()


def launched(home: str, *words: object) -> str:
    """What `parley` prints on the launcher's host."""
    command = [*within(home), *COMMAND, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_workers_on_hosts_of_their_own_reach_the_board_with_keys(
    three_hosts: tuple[str, str, str], far: DaskCluster, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    launched(three_hosts[0], "run", *SMALL, *SPOKEN, "--on", far.address, "--out", out)
    messages: list[Message] = recorded(out)
    assert len(replies(messages)) == 3 * 90
    assert sum(isinstance(each, Result) for each in messages) == 1
    # Nobody asked for keys: an address that others reach does not go without.
    assert (out / "state" / "keys" / "allowed.public").exists()
    assert LAUNCHER in (out / "state" / "addresses.json").read_text()


def test_boards_of_shards_on_hosts_of_their_own_are_reached_with_keys(
    three_hosts: tuple[str, str, str], far: DaskCluster, parley: Parley, tmp_path: Path
) -> None:
    assert parley("run", *SMALL, *SPOKEN, "--processes", 2, "--out", tmp_path / "here").code == 0
    out = tmp_path / "run"
    launched(three_hosts[0], "run", *SMALL, *SPOKEN, "--on", far.address, "--shards", 2, "--out", out)
    for board, host in (("board", LAUNCHER), ("board-0", f"{FIRST}.2"), ("board-1", f"{SECOND}.2")):
        name = "addresses" if board == "board" else board
        assert f"tcp://{host}:" in (out / "state" / f"{name}.json").read_text()
    assert (out / "state" / "keys" / "allowed.public").exists()
    assert parley("diff", tmp_path / "here", out).code == 0
    audit = parley("audit", out, "--json").record
    assert audit["ok"], audit
    assert audit["authorship"]["verdict"] == "pass"


def test_a_shard_whose_host_is_lost_costs_the_run_its_users(
    three_hosts: tuple[str, str, str], far: DaskCluster, parley: Parley, tmp_path: Path
) -> None:
    shards = ("--processes", 4, "--shards", 2, "--quorum", 0.4, "--deadline", 20)
    out = tmp_path / "run"
    messages = disturbed(far, "second", tmp_path, within(three_hosts[0]), shards, out / "shards" / "shard-1")
    # The others of this module need it back.
    far.processes["second"].wait()
    far.start_worker("second", f"{SECOND}.2", within(three_hosts[2]))
    said = (tmp_path / "log").read_text()
    assert "no other worker on its host can take its place" in said
    assert len(estimates(messages)) == 1
    heard = {user for _, user in replies([r.message for r in read_run(out / "transcript.parley")])}
    assert heard == set(range(20_000))
    audit = parley("audit", out, "--json").record
    for part in ("integrity", "rounds", "privacy", "fidelity", "result"):
        assert audit[part]["verdict"] == "pass", audit[part]
    # Its board could not sign the end of its record.
    assert audit["authorship"]["verdict"] == "unknown", audit["authorship"]


def test_a_sweep_on_hosts_of_their_own_finds_what_a_sweep_here_finds(
    three_hosts: tuple[str, str, str], far: DaskCluster, parley: Parley
) -> None:
    there = json.loads(launched(three_hosts[0], *SWEEP, "--on", far.address))
    same(parley(*SWEEP, "--processes", 1).record, there)


def test_a_lost_host_is_made_up_for_by_the_other(
    three_hosts: tuple[str, str, str], far: DaskCluster, calm: list[Message], tmp_path: Path
) -> None:
    # The last that needs both hosts: one of them loses its only worker.
    messages = disturbed(far, "second", tmp_path, within(three_hosts[0]))
    lost = [each.detail for each in events(messages, "restart") if "was lost" in each.detail]
    assert lost
    assert all(f"{SECOND}.2" in each and f"placed again on tcp://{FIRST}.2" in each for each in lost), lost
    assert replies(messages) == replies(calm)
    assert estimates(messages) == estimates(calm)
