"""Boards of shards on the workers of a real Dask cluster: the same estimate, whatever is killed, nobody left behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.emulator.record.shards import read_run
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Event, Message, Replies
from parley.launch.cluster.worker_processes import drop_probes, host_of, shows, write_probe
from tests.launch.cluster.test_dask import COMMAND, LARGE, SMALL, SPOKEN
from tests.launch.conftest import ROOT, Parley
from tests.launch.dask_cluster import ENVIRONMENT, DaskCluster
from tests.launch.processes.test_forkserver import until
from tests.launch.recovery import estimates, recorded, replies

SHARDS = ("--processes", 4, "--shards", 2)
STATISTIC = ("run", *LARGE, *SPOKEN, "--quiet")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    made = DaskCluster(tmp_path_factory.mktemp("dask"))
    try:
        made.start_scheduler()
        for name in ("first", "second"):
            made.start_worker(name)
        yield made
    finally:
        made.end()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Message]:
    """The run that is disturbed below: on this machine, with one board, undisturbed."""
    out = tmp_path_factory.mktemp("calm") / "run"
    words = (*STATISTIC, "--processes", 2, "--out", out)
    subprocess.run([*COMMAND, *map(str, words)], cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=True)
    return recorded(out)


def whole(folder: Path) -> list[Message]:
    return [record.message for record in read_run(folder / "transcript.parley")]


def servers(folder: Path) -> dict[str, tuple[int, int]]:
    """The processes that workers run for this run: their names, process ids, and those of their parents."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode().split("\0")
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if "parley.launch.processes.dependent_node" in words and any(str(folder) in word for word in words):
            name = words[words.index("--name") + 1] if "--name" in words else words[words.index("--shard") + 1]
            found[name if "--name" in words else name.replace("shard", "board")] = int(place.name), parent
    return found


def under_way(folder: Path, shard: str) -> bool:
    """Replies of the first round are on the shard's record."""
    transcript = folder / "shards" / shard / "transcript.parley"
    if not transcript.exists() or transcript.stat().st_size < 1000:
        return False
    return any(isinstance(record.message, Replies) for record in TranscriptReader(transcript))


class Launched:
    """`parley run` over the cluster in a process of its own."""

    def __init__(self, cluster: DaskCluster, folder: Path, *words: object) -> None:
        self.out, self.log = folder / "run", folder / "log"
        command = [*COMMAND, *STATISTIC, *SHARDS, "--on", cluster.address, "--out", self.out, *words]
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                list(map(str, command)), cwd=ROOT, env=ENVIRONMENT, stdout=file, stderr=file
            )

    def __enter__(self) -> "Launched":
        until(lambda: self.process.poll() is not None or under_way(self.out, "shard-1"))
        assert self.process.poll() is None, self.log.read_text()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        return self.process.wait(200)


def check_same(launched: Launched, calm: list[Message], parley: Parley, happened: str) -> None:
    """It ended well, with the replies and the estimate of the calm run, and what happened is on record."""
    assert launched.end() == 0, launched.log.read_text()
    messages = whole(launched.out)
    assert replies(messages) == replies(calm)
    assert estimates(messages) == estimates(calm)
    restarts = [each.detail for each in messages if isinstance(each, Event) and each.event == "restart"]
    assert any(happened in each for each in restarts), restarts
    audit = parley("audit", launched.out, "--json").record
    assert audit["ok"], audit
    assert set(audit["integrity"]["shards"]) == {"shard-0", "shard-1"}
    until(lambda: not servers(launched.out))


def test_boards_on_workers_give_the_estimate_of_one_board(cluster: DaskCluster, parley: Parley, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert parley("run", *SMALL, *SPOKEN, "--processes", 2, "--out", here).code == 0
    said = parley("run", *SMALL, *SPOKEN, *SHARDS, "--on", cluster.address, "--out", there)
    assert said.code == 0, said.err
    assert estimates(whole(there)) == estimates(recorded(here))
    assert parley("audit", there, "--json").record["ok"]
    assert parley("replay", there, "--role", "all").code == 0
    assert parley("diff", here, there).code == 0
    assert parley("report", there).code == 0
    kinds = [record["kind"] for record in parley("show", there, "--json").record["records"]]
    assert kinds.count("tally") == kinds.count("tie") == 6
    assert not list((there / "state").glob("*.signing"))
    until(lambda: not servers(there))


def test_a_killed_board_starts_again_on_its_worker(
    cluster: DaskCluster, calm: list[Message], parley: Parley, tmp_path: Path
) -> None:
    with Launched(cluster, tmp_path) as launched:
        found = servers(launched.out)
        assert set(found) == {"board-0", "board-1", "shard-0", "shard-1"}
        workers = {process.pid for name, process in cluster.processes.items() if name != "scheduler"}
        assert {parent for _, parent in found.values()} == workers
        os.kill(found["board-1"][0], signal.SIGKILL)
        check_same(launched, calm, parley, "board-1 was killed by SIGKILL and is started again, time 1 of 3")


def test_the_board_of_a_lost_worker_goes_on_with_another_worker_of_its_host(
    cluster: DaskCluster, calm: list[Message], parley: Parley, tmp_path: Path
) -> None:
    cluster.start_worker("doomed")
    with Launched(cluster, tmp_path, "--shards", 3) as launched:
        doomed = cluster.processes["doomed"]
        lost = [name for name, (_, parent) in servers(launched.out).items() if parent == doomed.pid]
        assert len(lost) == 2, "a board and its sub-analyst"
        doomed.kill()
        doomed.wait()
        assert launched.end() == 0, launched.log.read_text()
    messages = whole(launched.out)
    assert replies(messages) == replies(calm)
    assert estimates(messages) == estimates(calm)
    restarts = [each.detail for each in messages if isinstance(each, Event) and each.event == "restart"]
    for name in lost:
        assert any(each.startswith(f"{name} was lost with worker tcp://127.0.0.1") for each in restarts), restarts
    assert parley("audit", launched.out, "--quiet").code == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_launcher(cluster: DaskCluster, tmp_path: Path, number: signal.Signals) -> None:
    with Launched(cluster, tmp_path) as launched:
        assert len(servers(launched.out)) == 4
        launched.process.send_signal(number)
        code = launched.end()
        if number is signal.SIGINT:
            # The command waits for them.
            assert not servers(launched.out)
        until(lambda: not servers(launched.out))
    if number is signal.SIGINT:
        assert code == 130, launched.log.read_text()
        for shard in ("shard-0", "shard-1"):
            reader = TranscriptReader(launched.out / "shards" / shard / "transcript.parley")
            reader.verify()
            assert reader.closing is not None
            assert reader.closing.outcome == "aborted"


def test_a_run_without_its_scheduler_fails_and_leaves_nobody(tmp_path: Path) -> None:
    doomed = DaskCluster(tmp_path)
    try:
        doomed.start_scheduler()
        for name in ("first", "second"):
            doomed.start_worker(name)
        with Launched(doomed, tmp_path) as launched:
            doomed.processes["scheduler"].kill()
            assert launched.end() == 3, launched.log.read_text()
        said = launched.log.read_text()
        assert "parley: the Dask scheduler at tcp://127.0.0.1" in said.splitlines()[-1]
        assert "Traceback (most recent call last)" not in said
        until(lambda: not servers(launched.out))
    finally:
        doomed.end()


@pytest.mark.parametrize("there", [False, True], ids=["no such folder", "a folder of its own"])
def test_workers_that_do_not_share_the_folder_are_refused(tmp_path: Path, there: bool) -> None:
    # What /proc/self/cwd names depends on who asks: a folder that is not shared.
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for each in (mine, theirs):
        each.mkdir()
    if there:
        (theirs / "run" / "state").mkdir(parents=True)
    cluster = DaskCluster(tmp_path)
    try:
        cluster.start_scheduler()
        cluster.start_worker("apart", cwd=theirs)
        words = ("run", *SMALL, *SHARDS, "--on", cluster.address, "--out", "/proc/self/cwd/run")
        command = [*COMMAND, *map(str, words)]
        done = subprocess.run(command, cwd=mine, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    finally:
        cluster.end()
    assert done.returncode == 2, done.stderr
    assert ("does not show here" if there else "cannot use the run's folder") in done.stderr
    assert "give --out in a folder that all share" in done.stderr
    assert not (mine / "run").exists()
    assert not list(theirs.glob("run/state/*"))


def test_a_file_shows_if_it_is_whole_and_locked(tmp_path: Path) -> None:
    name = write_probe(tmp_path, [])
    assert shows(tmp_path / name)
    # As over a file system whose locks or writes stay on their own machine.
    other = tmp_path / "probe-other"
    other.write_text("probe-other")
    assert not shows(other)
    other.write_text("")
    assert not shows(other)
    drop_probes(tmp_path)
    assert not shows(tmp_path / name)
    assert list(tmp_path.iterdir()) == [other]
    with pytest.raises(FileNotFoundError):
        write_probe(tmp_path, [tmp_path / "allowed.public"])


def test_the_host_of_a_worker() -> None:
    assert host_of("tcp://192.0.2.7:40000") == "192.0.2.7"
    assert host_of("tls://[2001:db8::1]:40000") == "2001:db8::1"
