"""Protocols of one's own: every example is short, and runs, plans, sweeps, audits and replays."""

import ast
import json
import re
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import parley
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Protocol
from parley.protocols import registry
from parley.protocols.planned import truth_of
from parley.protocols.planning.fast_simulation import play_all
from parley.protocols.plugins import VARIABLE, add_file
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.workload import Levels, Workload
from tests.launch.conftest import ROOT, Parley
from tests.launch.conftest import parley as command

__all__ = ["command"]

EXAMPLES = ROOT / "docs" / "examples"
USERS = 600
TRIALS = 400
# Chance of a failure by bad luck.
ALPHA = 1e-6
# Name of the protocol -> file, most lines, what is asked, levels as they are typed.
OWN: dict[str, tuple[str, int, Workload | Levels, tuple[str, ...]]] = {
    "one-hemisphere": (
        "own_protocol.py",
        25,
        GiniDiversity(levels=4),
        ("--statistic", "gini-diversity", "--levels", "4"),
    ),
    "mean": ("mean.py", 40, Levels((16,)), ("--levels", "16")),
    "histogram": ("histogram.py", 40, Levels((6,)), ("--levels", "6")),
    "own-table": ("own_table.py", 40, Levels((5,)), ("--levels", "5")),
    "range-refinement": ("range_refinement.py", 40, Levels((64,)), ("--levels", "64")),
}
NAMES = tuple(OWN)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered here is known to no other test."""
    monkeypatch.setattr(registry, "_OUTSIDE", {})
    monkeypatch.setenv(VARIABLE, "")


def designed(name: str, epsilon: float = 2.0, users: int = USERS) -> Protocol:
    file, _, question, _ = OWN[name]
    add_file(EXAMPLES / file)
    return registry.design(name, question, epsilon=epsilon, users=users)


def lines_of_code(path: Path) -> int:
    """Lines that are neither blank nor comment nor part of a docstring."""
    with tokenize.open(path) as text:
        tree = ast.parse(text.read())
    quoted: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            quoted |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING) and token.string:
                code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - quoted)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_imports_parley_alone(name: str) -> None:
    file, most, _, _ = OWN[name]
    assert lines_of_code(EXAMPLES / file) <= most
    tree = ast.parse((EXAMPLES / file).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert names <= {"dataclasses", "functools", "math", "numpy", "parley"}
    assert "parley" in names


@pytest.mark.parametrize("name", NAMES)
def test_a_setup_describes_it(name: str) -> None:
    protocol = designed(name)
    assert registry.build(name, protocol.parameters()) == protocol
    assert registry.inputs_of(name, protocol.parameters()) == protocol.inputs
    with pytest.raises(parley.BadInput):
        registry.build(name, {**protocol.parameters(), "epsilon": "much"})


@pytest.mark.parametrize("name", NAMES)
def test_its_interval_holds_the_truth_as_often_as_it_says(name: str) -> None:
    protocol = designed(name, users=5000)
    inputs = np.minimum(np.random.default_rng(3).geometric(0.3, 5000), protocol.inputs) - 1
    counts = np.bincount(inputs, minlength=protocol.inputs).astype(np.int64)
    truth = truth_of(protocol, inputs)
    assert truth is not None
    found = play_all(protocol, counts, [np.random.default_rng([8, run]) for run in range(TRIALS)])
    held = sum(each.interval95[0] <= truth <= each.interval95[1] for each in found)
    least = scipy.stats.binom.ppf(ALPHA, TRIALS, 0.95)
    assert held >= least, f"{held} of {TRIALS} intervals held {truth}; at least {least} should"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_it(name: str, command: Parley, tmp_path: Path) -> None:
    file, _, question, levels = OWN[name]
    own = ("--protocol-file", str(EXAMPLES / file))
    asked = (*own, "--protocol", name, *levels, "--epsilon", "2", "--seed", "1")
    out = tmp_path / "run"
    ran = command("run", *asked, "--users", USERS, "--out", out, "--json", "--quiet")
    assert ran.code == 0, ran.err
    result = ran.record
    assert (result["protocol"], result["replied"]) == (name, USERS)
    assert result["statistic"] == (None if isinstance(question, Levels) else question.name)
    assert abs(result["error"]) < 6 * result["predicted_rmse"]
    again = simulated(name, EXAMPLES / file)
    assert again.estimate == result["estimate"]
    audited = command("audit", out, *own, "--json")
    assert audited.code == 0, audited.out
    assert audited.record["privacy"]["verdict"] == audited.record["result"]["verdict"] == "pass"
    replayed = command("replay", out, *own, "--role", "all", "--json")
    assert replayed.code == 0, replayed.out
    planned = command("plan", *asked, "--users", USERS, "--json").record
    (option,) = planned["protocols"]
    assert option["rounds"] == result["rounds"]["declared"]
    assert (planned["gamma_2"] is None) == isinstance(question, Levels)
    (row,) = json.loads(command("sweep", *asked, "--users", USERS, "--trials", 20, "--json", "--quiet").out)
    assert 0.5 < row["rmse"] / row["predicted_rmse"] < 2
    report = command("report", out, *own, "--out", tmp_path / "page.html")
    assert report.code == 0, report.err


def simulated(name: str, path: Path) -> parley.Answer:
    _, _, question, _ = OWN[name]
    named = {} if isinstance(question, Levels) else {"statistic": question.name}
    problem = parley.problem(**named, levels=question.shape, users=USERS, seed=1, protocol_file=path)
    return problem.simulate(epsilon=2.0, protocol=name, seed=1)


def test_columns_become_the_inputs_of_a_protocol_of_ones_own() -> None:
    frame = {"age": np.array([18.0, 54.0, 90.0, 54.0]), "pet": np.array(["cat", "dog", "cat", "cat"])}
    mean = parley.problem(
        frame, columns=["age"], levels=9, ranges={"age": (18, 90)}, protocol_file=EXAMPLES / "mean.py"
    )
    answer = mean.simulate(epsilon=2.0, protocol="mean")
    assert (answer.truth, answer.statistic) == (0.5, None)
    pets = {"pet": ("cat", "dog")}
    shares = parley.problem(frame, columns=["pet"], levels=2, categories=pets, protocol_file=EXAMPLES / "histogram.py")
    assert shares.simulate(epsilon=2.0, protocol="histogram").truth == 0.75
    assert shares.domain is not None
    assert shares.domain["columns"][0]["name"] == "pet"


@pytest.mark.parametrize("ends", [(0.5, 0.25), (0.5, 0.5), (-0.25, 0.5), (0.5, 1.25)])
def test_users_refuse_a_range_that_is_none(ends: tuple[float, float]) -> None:
    second = designed("range-refinement").rounds[1]
    second.check_broadcast({"low": np.float64(0.25), "high": np.float64(0.5)})
    with pytest.raises(RemoteProtocolError, match="is not a part of"):
        second.check_broadcast({"low": np.float64(ends[0]), "high": np.float64(ends[1])})


def test_a_protocol_that_takes_more_than_it_claims_is_refused(command: Parley, tmp_path: Path) -> None:
    text = (EXAMPLES / "mean.py").read_text().replace("epsilon=self.epsilon)", "epsilon=2 * self.epsilon)")
    (tmp_path / "greedy.py").write_text(text)
    asked = ("--levels", "4", "--users", "10", "--epsilon", "1", "--protocol", "mean")
    ran = command("run", "--protocol-file", tmp_path / "greedy.py", *asked, "--quiet")
    assert ran.code == 2
    assert "mean claims epsilon 1, but its rounds take 2 from one user" in ran.err


def test_questions_without_a_statistic(command: Parley) -> None:
    asked = ("--levels", "4", "--users", "10", "--epsilon", "1", "--quiet")
    for protocol in ("auto", "three-round", "linear-queries"):
        ran = command("run", *asked, "--protocol", protocol)
        assert ran.code == 2
        assert "say wh" in ran.err


def test_fields_that_nobody_fills(tmp_path: Path, command: Parley) -> None:
    text = (EXAMPLES / "mean.py").read_text().replace("    epsilon: float\n", "    epsilon: float\n    width: float\n")
    (tmp_path / "wide.py").write_text(text)
    asked: Any = ("--levels", "4", "--users", "10", "--epsilon", "1", "--protocol", "mean", "--quiet")
    ran = command("run", "--protocol-file", tmp_path / "wide.py", *asked)
    assert ran.code == 2
    assert "nobody knows width of mean" in ran.err


def test_the_code_on_the_page_is_code() -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs" / "own-protocol.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == 2
    made: dict[str, Any] = {"__name__": __name__}
    for block in blocks:
        exec(compile(block, "own-protocol.md", "exec"), made)
    registry.register(made["Mean"])
    assert registry.design("mean", Levels((4,)), epsilon=1.0, users=USERS).claim.epsilon == 1.0
