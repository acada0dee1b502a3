"""What docs/deploy.md tells people to type exists: options, units, manifests."""

import configparser
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import yaml

from parley.emulator.record.transcript import TranscriptReader
from parley.launch.cli import COMMANDS, FILES
from tests.launch.conftest import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def spoken() -> Iterator[list[str]]:
    """Every parley command on the page, in words; "..." is one where the page leaves something out."""
    text = "\n".join(each.replace("\\\n", " ") for each in blocks(r"\w*"))
    for line in re.findall(r"(?:^|/)(parley (?:node|run|sweep|keys|plan|inputs) .*)$", text, re.MULTILINE):
        yield shlex.split(line.partition(" # ")[0].removesuffix(" &"))
    for command in re.findall(r"command: \[(parley, .*?)\]\n", text, re.DOTALL):
        yield [word.strip(' "') for word in command.replace("\n", " ").split(",")]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def command_of(words: list[str]) -> click.Command:
    assert words[1] in COMMANDS, words
    where = FILES.get(words[1], f"commands.{words[1]}")
    module = f"parley.nodes.{words[2]}" if words[1] == "node" else f"parley.launch.{where}"
    found = getattr(import_module(module), "main" if words[1] == "node" else words[1])
    assert isinstance(found, click.Command)
    return found


def test_every_option_exists() -> None:
    commands = list(spoken())
    assert len(commands) >= 10
    for words in commands:
        known = {option for parameter in command_of(words).params for option in parameter.opts}
        unknown = {word for word in words if word.startswith("--")} - known
        assert not unknown, f"{' '.join(words[:3])} has no {unknown}"


def test_what_a_command_needs_is_given_unless_it_is_left_out() -> None:
    for words in spoken():
        needed = [parameter for parameter in command_of(words).params if parameter.required and "..." not in words]
        for parameter in needed:
            given = set(parameter.opts) & set(words) or isinstance(parameter, click.Argument)
            assert given, f"{' '.join(words[:3])} needs {parameter.opts}"


def test_two_terminals_by_hand(tmp_path: Path) -> None:
    """The page, word for word but for its ports, which may be taken on this machine."""
    scripts = [text for text in blocks("sh") if text.startswith("parley ")]
    assert len(scripts) == 2
    shutil.copy(ROOT / "docs" / "examples" / "scores.csv", tmp_path)
    ports = dict(zip(("7001", "7002", "7003"), map(str, free_ports(3)), strict=True))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    first, second = (
        subprocess.Popen(
            # The people come when the keys are there.
            ["bash", "-ec", wait + re.sub(r"700[123]", lambda port: ports[port[0]], text)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for wait, text in zip(("", "until [ -e plan.parley ]; do sleep 0.1; done\n"), scripts, strict=True)
    )
    try:
        told, complaints = first.communicate(timeout=120)
        _, answers = second.communicate(timeout=60)
    finally:
        for each in (first, second):
            each.kill()
    assert (first.returncode, second.returncode) == (0, 0), complaints + answers
    found = re.search(r"^estimate  (\S+)   95% interval \[(\S+), (\S+)\]$", told, re.MULTILINE)
    assert found is not None, told
    assert float(found[2]) <= float(found[1]) <= float(found[3])
    assert "authorship    pass" in told
    assert re.search(r"^good", told, re.MULTILINE)
    assert TranscriptReader(tmp_path / "survey.parley").header["question"]["title"] == "Kendall's tau of age and score"
    assert stat.S_IMODE((tmp_path / "inputs.npy").stat().st_mode) == 0o600


def test_units_are_units() -> None:
    units = blocks("ini")
    assert len(units) == 2
    for text in units:
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.read_string(re.sub(r"\\\n\s*", " ", text))
        assert unit["Service"]["ExecStart"].startswith("/opt/parley/bin/parley node ")
        assert unit["Service"]["Restart"] == "on-failure"
        assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_manifests_are_manifests() -> None:
    found = [document for text in blocks("yaml") for document in yaml.safe_load_all(text)]
    assert [each["kind"] for each in found] == ["DaskCluster", "Job", "StatefulSet"]
    for each in found:
        assert each["apiVersion"]
        assert each["metadata"]["name"]
        assert each["spec"]
