"""What docs/deploy.md tells people to type exists: options, units, manifests."""

import configparser
import re
import shlex
from collections.abc import Iterator
from importlib import import_module

import click
import yaml

from parley.launch.cli import COMMANDS
from tests.launch.conftest import ROOT

PAGE = (ROOT / "docs" / "deploy.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def spoken() -> Iterator[list[str]]:
    """Every parley command on the page, in words; "..." is one where the page leaves something out."""
    text = "\n".join(each.replace("\\\n", " ") for each in blocks(r"\w*"))
    for line in re.findall(r"(?:^|/)(parley (?:node|run|sweep|keys) .*)$", text, re.MULTILINE):
        yield shlex.split(line.partition(" # ")[0])
    for command in re.findall(r"command: \[(parley, .*?)\]\n", text, re.DOTALL):
        yield [word.strip(' "') for word in command.replace("\n", " ").split(",")]


def command_of(words: list[str]) -> click.Command:
    assert words[1] in COMMANDS, words
    module = f"parley.nodes.{words[2]}" if words[1] == "node" else f"parley.launch.commands.{words[1]}"
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
