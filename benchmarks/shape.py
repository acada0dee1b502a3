"""The shape of the code in numbers, before and after, and the imports between its packages.

    python -m benchmarks.shape 6cd613e HEAD            # a table of both revisions
    python -m benchmarks.shape 6cd613e HEAD --write    # the same, into docs/architecture.md

A revision is taken from git into a temporary folder, so the working tree does not matter. The import graph on the page
is made by `python -m tests.docs.tables --write` from the working tree.
"""

import ast
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.page import table, write_block

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
LAYERS = ("emulator", "protocols", "nodes", "launch")
# In a fresh process of that revision: what a user's node has loaded once it has built three-round from a setup.
SETUP = """
import sys
from {prefix}protocols.registry import design
from {prefix}protocols.workloads.kendall import Kendall
from {codec} import pack
protocol = design("three-round", Kendall(levels=(8, 8)), epsilon=4.0, users=100)
open(sys.argv[1], "wb").write(pack(protocol.parameters()))
"""
NODE = """
import sys
import {prefix}nodes.user as node
from {codec} import unpack
node.build("three-round", unpack(open(sys.argv[1], "rb").read()))
ours = [name for name in sys.modules if name.split(".")[0] in ("parley", "emulator", "protocols", "nodes", "launch")]
holding = [name for name in ours if not hasattr(sys.modules[name], "__path__") or name == "parley"]
print(len(holding), len(ours))
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What one revision looks like."""

    files: int
    lines: int
    modules: int
    with_packages: int
    median: float
    p90: int
    edges: float


def shape_of(tree: Path) -> Shape:
    """Count everything in a tree of sources."""
    files = sources(tree)
    lengths = sorted(length for path in files for length in function_lengths(path))
    modules, with_packages = loaded_by_a_node(tree)
    return Shape(
        files=len(files),
        lines=sum(len(path.read_text().splitlines()) for path in files),
        modules=modules,
        with_packages=with_packages,
        median=statistics.median(lengths),
        p90=lengths[int(0.9 * len(lengths))],
        edges=sum(len(imported(tree, path)) for path in files) / len(files),
    )


def sources(tree: Path) -> list[Path]:
    """The files of the product."""
    return [path for layer in LAYERS for path in sorted((tree / layer).rglob("*.py"))]


def function_lengths(path: Path) -> Iterator[int]:
    """Lines of every function, its signature and docstring with it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def imported(tree: Path, path: Path) -> set[Path]:
    """The files of ours that a file imports, wherever in the file."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each for alias in node.names if (each := _file(tree, alias.name)) is not None}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [_file(tree, f"{node.module}.{alias.name}") for alias in node.names]
            found |= {each for each in (*inner, _file(tree, node.module)) if each is not None}
    return found - {path}


def _file(tree: Path, module: str) -> Path | None:
    """The file of a module of ours that holds code; None for others, and for packages."""
    path = (tree / module.removeprefix("parley.").replace(".", "/")).with_suffix(".py")
    return path if path.is_file() and path.relative_to(tree).parts[0] in LAYERS else None


def package_of(tree: Path, path: Path) -> str:
    """The folder a file is in, as far as two levels down."""
    return "/".join(path.relative_to(tree).parent.parts[:2])


def graph() -> str:
    """Which package imports from which, as a table; imports inside functions count too."""
    edges: dict[str, set[str]] = {}
    for path in sources(ROOT):
        own = package_of(ROOT, path)
        edges.setdefault(own, set()).update(package_of(ROOT, each) for each in imported(ROOT, path))
    lines = ["| package | imports from |", "|---|---|"]
    for own, others in edges.items():
        wanted = sorted(others - {own}, key=lambda each: (LAYERS.index(each.split("/")[0]), each))
        lines.append(f"| `{own}` | {', '.join(f'`{each}`' for each in wanted) or 'nothing of ours'} |")
    return "\n".join(lines)


def loaded_by_a_node(tree: Path) -> tuple[int, int]:
    """Modules that hold code, and all of them."""
    prefix = "parley." if (tree / "parley" / "emulator").exists() else ""
    codec = next((tree / "emulator").rglob("codec.py")).relative_to(tree).with_suffix("")
    names = {"prefix": prefix, "codec": prefix + ".".join(codec.parts)}
    with TemporaryDirectory() as folder:
        setup = str(Path(folder) / "setup")
        said = [
            subprocess.run(
                [sys.executable, "-c", program.format(**names), setup],
                cwd=tree,
                env={"PYTHONPATH": str(tree), "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for program in (SETUP, NODE)
        ]
    holding, every = map(int, said[1].split())
    return holding, every


def at(revision: str) -> Shape:
    """The shape of a revision."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="tar")
        return shape_of(Path(folder))


def compared(before: Shape, after: Shape) -> str:
    """Both side by side."""
    rows = [
        ("files", before.files, after.files),
        ("lines", before.lines, after.lines),
        ("modules that a user node loads for three-round", before.modules, after.modules),
        ("the same with packages that hold no code", before.with_packages, after.with_packages),
        ("lines of a function, median", before.median, after.median),
        ("lines of a function, 90th percentile", before.p90, after.p90),
        ("imports of ours per file", before.edges, after.edges),
    ]
    return table(["in `emulator protocols nodes launch`", "before", "after"], rows)


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--write", is_flag=True, help="Put the table into docs/architecture.md.")
def main(before: str, after: str, write: bool) -> None:
    """Compare the shapes of two revisions."""
    made = compared(at(before), at(after))
    click.echo(made)
    if write:
        write_block("shape", made, PAGE)


if __name__ == "__main__":
    main()
