"""The files that people and their tools look for: they parse, agree with the project, and run what is there."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read(name: str | Path) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def test_the_citation_is_about_this_version() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == project()["version"]
    assert citation["license"] == project()["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    # README names the same paper by the same people.
    readme = " ".join((ROOT / "README.md").read_text().split())
    (paper,) = citation["references"]
    assert paper["title"] in readme
    assert ", ".join(each["family-names"] for each in paper["authors"]) in readme


def test_the_workflow_runs_what_continuous_integration_runs() -> None:
    (job,) = read(".github/workflows/test.yml")["jobs"].values()
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    assert scripts == ["./.ci/run"]
    assert os.access(ROOT / scripts[0], os.X_OK)


def test_the_hooks_are_what_the_test_script_checks() -> None:
    (local,) = read(".pre-commit-config.yaml")["repos"]
    script = (ROOT / "launch" / "test.sh").read_text()
    for hook in local["hooks"]:
        tool = hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        assert f'"$venv"/bin/{tool}' in script, tool


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_issue_templates(path: Path) -> None:
    template = read(path)
    if path.name == "config.yml":
        return
    assert {"name", "description", "body"} <= set(template)
    named = [each["id"] for each in template["body"] if each["type"] != "markdown"]
    assert len(set(named)) == len(named) >= 2


def test_security_points_to_what_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    assert "Report a vulnerability" in text
    assert (ROOT / "docs" / "threat-model.md").is_file()
    assert "(docs/threat-model.md)" in text
