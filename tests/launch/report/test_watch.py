"""The live page: it counts up while the run goes on, ends as the report, lets nobody else in, leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import parley.launch.results.reporting
from parley.emulator.errors import BadInput
from parley.launch.report.page import read_model
from parley.launch.results.folder import RunFolder
from parley.launch.results.reporting import Watcher
from tests.launch.conftest import COMMAND, ROOT
from tests.launch.report.conftest import PROBLEM, Visitor

# Every reply takes its time, so that there is something to watch.
SLOW = """
name = "slow"
seed = 1
[[fault]]
kind = "delay"
direction = "up"
messages = ["replies"]
distribution = "uniform"
seconds = 2.0
spread = 2.0
"""
COUNTS = re.compile(r"Round (\d) of 3: (\d+) of 12 replies")
Starter = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Starts a slow run that is watched."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "slow.toml").write_text(SLOW)

    def begin() -> "subprocess.Popen[str]":
        arguments = [*PROBLEM, "--users", "12", "--processes", "4", "--seed", "3", "--json", "--watch"]
        files = ["--conditions", str(tmp_path / "slow.toml"), "--out", str(tmp_path / "run")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [*COMMAND, "run", *arguments, *files],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def address(process: "subprocess.Popen[str]") -> str:
    """Where the run says it can be watched."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"http://127\.0\.0\.1:\d+/\S+", line):
            return found[0]
    raise AssertionError("the run did not say where to watch it")


def gone(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return True
    return False


def test_counts_up_and_ends_as_the_report(start: Starter, visitor: Visitor, tmp_path: Path) -> None:
    process = start()
    url = address(process)
    page = visitor.open(url)
    seen: list[str] = []
    while page.locator("#outcome").text_content() != "Finished":
        # Asked in the page itself: the element may be replaced between looking for it and reading it.
        words = page.evaluate("document.getElementById('progress-words')?.textContent ?? ''")
        seen += [words] if words not in seen else []
        page.wait_for_timeout(50)
    counts = [(int(found[1]), int(found[2])) for words in seen if (found := COUNTS.fullmatch(words))]
    assert counts == sorted(counts)
    # How many of them a busy machine shows depends on the machine.
    assert len({number for number, _ in counts}) >= 2
    out, _ = process.communicate()
    assert process.returncode == 0
    assert gone(url)
    model = read_model(tmp_path / "run" / "report.html")
    assert model["answer"]["estimate"] == json.loads(out)["estimate"]
    kept = page.evaluate("JSON.stringify([document.querySelectorAll('.mark[role=option]').length])")
    assert json.loads(kept) == [sum(len(band["marks"]) for band in model["diagram"]["bands"])]
    assert page.locator("#answer .big").count() == 1
    assert page.locator("#progress").is_hidden()
    assert visitor.requests == [url, f"{url}events"]


def test_dies_with_a_launcher_that_is_killed(start: Starter) -> None:
    process = start()
    url = address(process)
    assert not gone(url)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while not gone(url):
        assert time.monotonic() < deadline, "the page outlived its launcher"
        time.sleep(0.1)


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    with Watcher(RunFolder(run="r", path=tmp_path, default=False)) as watcher:
        yield watcher


def test_lets_nobody_else_in(watcher: Watcher) -> None:
    with urllib.request.urlopen(watcher.url, timeout=60) as answer:
        assert b"Content-Security-Policy" in answer.read()
    root = watcher.url.split("/", 3)[:3]
    with pytest.raises(urllib.error.HTTPError, match="404") as refused:
        urllib.request.urlopen("/".join([*root, "guess", ""]), timeout=60)
    refused.value.close()
    foreign = urllib.request.Request(watcher.url, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(foreign, timeout=60)
    refused.value.close()


def test_ends_by_itself_when_the_run_never_began(tmp_path: Path) -> None:
    with Watcher(RunFolder(run="r", path=tmp_path, default=False)) as watcher:
        pass
    assert watcher.process.returncode == 0


def test_a_page_that_died_does_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Watcher(RunFolder(run="r", path=tmp_path, default=False)) as watcher:
        watcher.process.kill()
        watcher.process.wait()
        watcher.tell(str(tmp_path / "report.html"))
    assert watcher.process.returncode == -signal.SIGKILL


def test_says_which_packages_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parley.launch.results.reporting, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"parley-ldp\[watch\]"):
        Watcher(RunFolder(run="r", path=tmp_path, default=False))


def test_the_report_does_not_need_the_server() -> None:
    program = (
        "import sys, parley.launch.commands.run, parley.launch.commands.report; "
        "print({'uvicorn', 'starlette'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
