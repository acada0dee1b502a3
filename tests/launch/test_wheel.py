"""The wheel holds `parley` and nothing else, and works beside other people's `launch`, `nodes` and so on."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.launch.conftest import ROOT

LAYERS = ("emulator", "protocols", "nodes", "launch")
SOURCES = ("parley", *LAYERS, "pyproject.toml", "README.md", "LICENSE")
PROBLEM = ("--statistic", "gini-diversity", "--levels", "4", "--users", "40", "--epsilon", "2")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def ran(*command: object, cwd: Path) -> str:
    """What a command printed, without anything that leads its Python back to this checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(each) for each in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: what an earlier build left in the checkout would get in."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, source / name)
    ran(*PIP, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", target, source, cwd=source)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment that holds the wheel and sees the other packages of this one."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, symlinks=True)
    programs = environment / "bin"
    ran(*PIP, "--python", programs / "python", "install", "--no-deps", "--no-index", wheel, cwd=environment)
    # A folder named in a .pth file is searched, but its own .pth files are not read: not the one of an editable Parley.
    (packages,) = environment.glob("lib/python*/site-packages")
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "others.pth").write_text("".join(f"{each}\n" for each in sorted(others)))
    return programs


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Somebody's project, with folders called like ours."""
    for name in LAYERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise RuntimeError('this is another {name}')\n")
    return tmp_path


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    package, information = sorted({name.partition("/")[0] for name in names})
    assert package == "parley"
    assert information.endswith(".dist-info")
    assert "parley/py.typed" in names
    modules = {f"parley/{path.relative_to(ROOT)}" for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
    assert modules - names == set()


def test_it_is_the_wheel_that_is_imported(programs: Path, elsewhere: Path) -> None:
    found = ran(programs / "python", "-c", "import parley; print(parley.__file__)", cwd=elsewhere)
    assert Path(found.strip()).is_relative_to(programs.parent)
    said = ran(programs / "python", "-m", "parley", "--version", cwd=elsewhere)
    assert said == ran(programs / "parley", "--version", cwd=elsewhere)
    assert said.startswith("parley, version ")


@pytest.mark.parametrize("command", [("parley",), ("python", "-m", "parley")], ids=" ".join)
def test_a_cluster_beside_folders_of_the_same_names(programs: Path, elsewhere: Path, command: tuple[str, ...]) -> None:
    words = ("run", *PROBLEM, "--protocol", "one-round", "--processes", "2", "--json")
    record = json.loads(ran(programs / command[0], *command[1:], *words, cwd=elsewhere))
    assert record["protocol"] == "one-round"
    assert record["replied"] == 40
