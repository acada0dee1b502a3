"""Imports point one way, launch -> nodes -> protocols -> emulator, and heavy libraries have one door each."""

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import parley
from parley.emulator.errors import BadInput
from parley.emulator.wire.codec import pack
from parley.nodes.analyst import write_plan
from parley.protocols.registry import BUILT_IN, SHUFFLED, design, lookup, needs_shuffler
from parley.protocols.workloads.kendall import Kendall
from parley.protocols.workloads.workload import REGISTRY, Workload
from tests.launch.conftest import ROOT

LAYERS = ("emulator", "protocols", "nodes", "launch")
FILES = [path.relative_to(ROOT) for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
# Modules that hold code; a package without any is none.
MOST_MODULES = 45
# A folder shows the architecture only if one can take it in at a glance.
MOST_FILES = 12
ONLY = {
    "zmq": "emulator/transport/zmq",
    "msgpack": "emulator/wire/codec.py",
    "cvxpy": "protocols/factorization/zeta.py",
}


def imported(path: Path) -> set[str]:
    """What a file imports, wherever in the file: the first name of other packages, and of Parley's the layer."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {_first(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            within = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "parley" else []
            names |= {_first(name) for name in within or [node.module or ""]}
    return names


def _first(module: str) -> str:
    package, _, rest = module.partition(".")
    return rest.split(".")[0] if package == "parley" and rest else package


def test_there_are_files() -> None:
    assert {path.parts[0] for path in FILES} == set(LAYERS)


def test_a_folder_holds_at_most_a_dozen_files() -> None:
    """Files of one level that hold code."""
    counted = Counter(path.parent.as_posix() for path in FILES if path.name != "__init__.py")
    assert counted.total() > len(counted)
    assert {folder: count for folder, count in counted.items() if count > MOST_FILES} == {}


@pytest.mark.parametrize("path", FILES, ids=str)
def test_direction(path: Path) -> None:
    above = LAYERS[LAYERS.index(path.parts[0]) + 1 :]
    assert imported(path).isdisjoint(above), f"{path} imports from a layer above it"
    assert imported(path).isdisjoint({"tests", "benchmarks"})


def test_parley_is_the_only_name() -> None:
    """Nobody imports `emulator` or `launch` as such: installed, these names are other people's."""
    for folder in (*LAYERS, "tests", "benchmarks", "docs"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            found = re.search(r"^\s*(?:from|import) (?:emulator|protocols|nodes|launch)\b", text, re.MULTILINE)
            assert found is None, f"{path}: {found[0] if found else ''}"


@pytest.mark.parametrize("library", ONLY)
def test_one_door(library: str) -> None:
    door = Path(ONLY[library])
    users = [path for path in FILES if library in imported(path)]
    assert [path for path in users if door not in (path, path.parent)] == []


def test_nothing_heavy_for_help() -> None:
    program = (
        "import sys; from parley.launch.cli import run; code = run(['--help']); "
        "print(code, sorted({'numpy', 'scipy', 'zmq', 'cvxpy', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "0 []"


def test_a_node_does_not_load_the_solver() -> None:
    program = "import sys, parley.nodes.user, parley.nodes.board, parley.nodes.analyst; print('cvxpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_crowd_is_forked_without_what_only_an_analyst_needs(tmp_path: Path) -> None:
    """A thousand user processes are forked from one that has warmed up: what it carries, all of them carry."""
    protocol = design("three-round", Kendall(levels=(8, 8)), epsilon=4.0, users=100)
    plan = tmp_path / "plan.parley"
    write_plan(plan, protocol)
    program = (
        "import sys; from pathlib import Path; "
        "from parley.launch.processes import forkserver, warmup; forkserver.warm(); "
        f"protocol = sys.modules['parley.nodes.analyst'].read_plan(Path({str(plan)!r})).protocol; "
        "warmup.warm_up(protocol); "
        "print(sorted({'scipy.linalg', 'scipy.special', 'scipy.optimize'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_user_node_carries_little(tmp_path: Path) -> None:
    """What a user's node has loaded once it has built three-round from a setup, in a process of its own."""
    protocol = design("three-round", Kendall(levels=(8, 8)), epsilon=4.0, users=100)
    (tmp_path / "setup").write_bytes(pack(protocol.parameters()))
    program = (
        "import sys; from pathlib import Path; import parley.nodes.user as node; "
        "from parley.emulator.wire.codec import unpack; "
        f"node.build('three-round', unpack(Path({str(tmp_path / 'setup')!r}).read_bytes())); "
        "print(*sorted(name for name in sys.modules if name.startswith('parley')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    modules = [name for name in loaded if not (ROOT / name.replace(".", "/")).is_dir() or name == "parley"]
    assert len(modules) <= MOST_MODULES, modules
    assert not [name for name in loaded if ".planning" in name or ".launch" in name or ".reference" in name]


def test_parley_itself_is_one_module_and_no_library() -> None:
    program = (
        "import sys; import parley; "
        "print(*sorted(name for name in sys.modules if name.split('.')[0] in ('parley', 'numpy', 'scipy', 'zmq')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["parley"]


def test_what_parley_gives_is_what_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "parley" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == parley._MODULES
    for name, module in seen.items():
        assert getattr(parley, name) is getattr(import_module(module), name)
    assert set(dir(parley)) == {*seen, "__version__"}


def test_every_name_leads_to_its_class() -> None:
    for name in BUILT_IN:
        assert lookup(name).name == name
        assert needs_shuffler(lookup(name)) == (name in SHUFFLED)
    for name, (_, _, required, _) in REGISTRY.items():
        with pytest.raises(BadInput, match=required[0]):
            Workload.from_parameters({"statistic": name})
