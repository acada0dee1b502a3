"""What does not fit is refused before anything starts, with the setting that lifts the limit."""

from pathlib import Path

import pytest

from parley.emulator.errors import BadInput
from parley.launch.processes.limits import MEBIBYTES_PER_NODE, check_room, limits
from tests.launch.conftest import Parley

ROOMY = {
    "proc/sys/kernel/threads-max": "1000000",
    "proc/sys/kernel/pid_max": "4194304",
    "proc/sys/net/ipv4/ip_local_port_range": "1024\t65535",
    "proc/loadavg": "0.1 0.1 0.1 2/300 4711",
    "proc/meminfo": "MemTotal: 99000000 kB\nMemAvailable: 90000000 kB",
    "proc/self/cgroup": "8:pids:/a/b\n0::/c/d",
    "groups/pids/a/b/pids.max": "max",
    "groups/c/pids.max": "500000",
    "groups/c/pids.current": "100",
}


def machine(folder: Path) -> tuple[Path, Path]:
    """A machine as its kernel describes it."""
    for name, text in ROOMY.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "proc", folder / "groups"


def test_a_thousand_fit_on_a_roomy_machine(tmp_path: Path) -> None:
    check_room(1000, 0, *machine(tmp_path))
    check_room(9000, 3, *machine(tmp_path))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "proc/sys/kernel/threads-max",
            "2000",
            r"kernel.threads-max = 2000 leaves room for 545; raise it with `sysctl",
        ),
        ("proc/sys/kernel/pid_max", "2000", r"kernel.pid_max = 2000 leaves room for 545"),
        (
            "groups/pids/a/pids.max",
            "1000",
            r"pids.max = 1000 of the control group leaves room for 312; raise TasksMax=",
        ),
        ("groups/c/pids.max", "1000", r"pids.max = 1000 of the control group leaves room for 278"),
        (
            "proc/meminfo",
            "MemAvailable: 1048576 kB",
            rf"1024 MiB of free memory leaves room for {int(1024 / MEBIBYTES_PER_NODE)}; free some memory",
        ),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768 33000", r"ip_local_port_range leaves room for 233; widen it"),
    ],
)
def test_what_is_too_small_is_named_with_its_cure(tmp_path: Path, file: str, text: str, said: str) -> None:
    place = machine(tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(BadInput, match=said):
        check_room(600, 0, *place)
    check_room(60, 0, *place)


def test_a_machine_that_tells_nothing_has_no_limits(tmp_path: Path) -> None:
    assert [limit for limit in limits(tmp_path, tmp_path) if "ulimit" not in limit.cause] == []


def test_open_files_are_raised_or_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 1000))

    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr("resource.setrlimit", refuse)
    with pytest.raises(BadInput, match="open files are needed and the hard limit is 1000"):
        check_room(1000, 0, *machine(tmp_path))
    with pytest.raises(BadInput, match=r"456 open files"):
        check_room(1000, 10, *machine(tmp_path))


def test_a_run_that_does_not_fit_leaves_nothing_behind(parley: Parley, tmp_path: Path) -> None:
    problem = ("--statistic", "gini-diversity", "--levels", 4, "--epsilon", 1, "--users", 4_000_000)
    answer = parley("run", *problem, "--protocol", "two-round", "--process-per-user", "--out", tmp_path / "run")
    assert (answer.code, (tmp_path / "run").exists()) == (2, False)
    assert "4000000 user processes do not fit" in answer.err
