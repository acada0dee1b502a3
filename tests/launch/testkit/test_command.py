"""`parley test` as a person calls it: verdicts, files, exit codes, errors in one sentence."""

import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.planted import FOLDER
from parley.launch.testkit.show import table_of
from parley.launch.testkit.stages import find_stages, run_stages
from parley.launch.testkit.target import find_target
from tests.launch.conftest import ROOT, Parley
from tests.launch.conftest import parley as command

__all__ = ["command"]

MEAN = ROOT / "docs" / "examples" / "mean.py"
ONLY = ("--quick", "--stage", "contract", "--stage", "accuracy", "--quiet")


def test_a_good_protocol(command: Parley, tmp_path: Path) -> None:
    said = command("test", MEAN, *ONLY, "--json", "--html", tmp_path / "page.html", "--junit", tmp_path / "junit.xml")
    assert said.code == 0, said.out
    record = said.record
    assert (record["target"], record["ok"], record["effort"]) == ("mean", True, "quick")
    assert record["counts"]["fail"] == 0
    assert {each["stage"] for each in record["verdicts"]} == {"contract", "accuracy"}
    assert all(each["says"] and each["seconds"] >= 0 for each in record["verdicts"])
    page = (tmp_path / "page.html").read_text()
    assert "prefers-color-scheme: dark" in page
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    cases = suites.findall("testsuite/testcase")
    assert len(cases) == len(record["verdicts"])
    assert suites.findall("testsuite/testcase/failure") == []


def test_a_bad_protocol(command: Parley, tmp_path: Path) -> None:
    said = command("test", FOLDER / "own_range.py", *ONLY, "--junit", tmp_path / "junit.xml")
    assert said.code == 1
    assert "own-range: NOT GOOD" in said.out
    assert "what replies tell about inputs" in " ".join(said.out.split())
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    (failure,) = suites.findall("testsuite/testcase/failure")
    assert "'x' of round 1" in failure.attrib["message"]
    # No truth, no accuracy.
    assert suites.findall("testsuite/testcase/skipped")


def test_a_protocol_that_breaks_down_gets_a_verdict_from_every_stage(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text((ROOT / "docs/examples/own_protocol.py").read_text().replace(".bilinear(", ".bilineal("))
    names = ("contract", "accuracy", "schedules", "small-world")
    report = run_stages(find_target(str(path)), "quick", find_stages(names))
    assert {each.stage for each in report.failures} == set(names)
    assert all("bilineal" in each.says for each in report.failures)


def test_a_built_in_protocol_by_its_name(command: Parley) -> None:
    said = command("test", "frequency-grr", *ONLY, "--json")
    assert said.code == 0, said.out


def test_the_table_fits_into_eighty_columns() -> None:
    report = run_stages(find_target(str(FOLDER / "weak_branch.py")), "quick", find_stages(("contract", "accuracy")))
    console = Console(width=80, file=io.StringIO(), record=True, force_terminal=False)
    console.print(table_of(report))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(" ".join(lines).split())
    assert "sampler follows likelihood" in words
    assert [each.check for each in report.verdicts if each.check not in words] == []


def test_progress_goes_to_standard_error(command: Parley) -> None:
    said = command("test", MEAN, "--quick", "--stage", "accuracy", "--json")
    assert json.loads(said.out)["ok"]
    assert "accuracy: coverage: pass" in said.err


TWO = """
from dataclasses import dataclass
import parley

class First(parley.Protocol):
    name = "first"
    def analyst(self):
        yield

class Second(First):
    name = "second"
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("thre-round",), "did you mean three-round?"),
        (("missing.py",), "missing.py is not a Python file"),
        (("empty.py",), "defines no protocol"),
        (("broken.py",), "cannot be loaded"),
        (("two.py",), "choose one with --protocol: first, second"),
        (("two.py", "--protocol", "third"), "holds no protocol 'third'"),
        (("three-round", "--quick", "--thorough"), "contradict each other"),
        (("three-round", "--stage", "luck"), "there is no stage 'luck'"),
        (("three-round", "--html", "nowhere/page.html"), "there is no folder nowhere"),
        (("picky.py",), "takes none of the kit's problems"),
        (("odd.py",), "is not a problem: give levels"),
    ],
)
def test_bad_input_is_one_sentence(arguments: tuple[str, ...], words: str, command: Parley, tmp_path: Path) -> None:
    mean = MEAN.read_text()
    files = {
        "empty.py": "x = 1\n",
        "broken.py": "import nothing_of_this_name\n",
        "two.py": TWO,
        "picky.py": mean.replace("    inputs: int\n", "    inputs: int\n    width: float\n"),
        "odd.py": mean.replace('    name = "mean"\n', '    name = "mean"\n    test_problems = ({"level": 3},)\n'),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    said = command("test", *arguments, "--quiet")
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_protocol_says_on_which_problems_it_is_tested(command: Parley, tmp_path: Path) -> None:
    problems = '    test_problems = ({"levels": 3, "epsilon": 0.5, "users": 200},)\n'
    text = MEAN.read_text().replace('    name = "mean"\n', f'    name = "mean"\n{problems}')
    (tmp_path / "declared.py").write_text(text)
    said = command("test", tmp_path / "declared.py", "--stage", "contract", "--quiet", "--json")
    assert said.code == 0, said.out
    assert {each["evidence"]["problems"] for each in said.record["verdicts"]} == {"k = 3, epsilon 0.5"}
