"""Build the documentation as a site: `python docs/site.py [FOLDER]`, without network, strict about broken links.

The pages are those of this folder, README and changelog, the API reference is made from docstrings, and notebooks
become pages. Links to files that are no pages stay links: those files are copied beside them.
"""

import ast
import inspect
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from mkdocs.commands.build import build
from mkdocs.config import load_config

import parley

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()((?!https?:|mailto:|#)[^)#\s]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
TOP = {
    ROOT / "README.md": "index.md",
    ROOT / "protocols" / "README.md": "symbols.md",
    DOCS / "README.md": "overview.md",
}
TOP |= {ROOT / name: name.lower() for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")}
NAVIGATION = {
    "Start": ["index.md", "overview.md", "tutorial.md", "notebooks/own-columns.md"],
    "Protocols": ["protocols.md", "accuracy.md", "bins.md", "shuffle.md", "mathematics.md", "symbols.md"],
    "Your own protocol": ["own-protocol.md", "examples/README.md", "notebooks/own-protocol.md", "testing.md"],
    "Guide": [f"guide/{path.name}" for path in sorted((DOCS / "guide").glob("*.md"), reverse=False)],
    "Trust": ["threat-model.md", "audit.md", "notebooks/faults-and-audit.md", "wallet.md", "reliability.md"],
    "Running": ["deploy.md", "scaling.md", "shards.md", "performance.md"],
    "Reference": ["api.md", "transcript.md", "wire.md", "architecture.md"],
    "Project": ["changelog.md", "contributing.md", "security.md"],
}


def place_of(source: Path) -> str:
    """Where a file of the repository is found on the site."""
    if source in TOP:
        return TOP[source]
    if source.is_relative_to(DOCS):
        named = source.relative_to(DOCS).as_posix()
        return named.removesuffix(".ipynb") + ".md" if source.suffix == ".ipynb" else named
    return f"files/{source.relative_to(ROOT).as_posix()}"


def write_page(source: Path, text: str, site: Path) -> None:
    """A page whose links lead to where things are on the site; what is not a page is copied."""
    place = site / place_of(source)

    def moved(link: "re.Match[str]") -> str:
        target = Path(os.path.normpath(source.parent / link[2]))
        if not target.exists():
            raise SystemExit(f"{source.relative_to(ROOT)}: {link[2]} does not exist")
        if target.is_dir():
            target = target / "README.md"
        found = site / place_of(target)
        if target.suffix not in (".md", ".ipynb") and not found.exists():
            found.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, found)
        return f"{link[1]}{os.path.relpath(found, place.parent)}{link[3]}"

    # Code is no prose: what looks like a link there is none.
    # Nor is `a[i][j]` a reference to be looked up in the API.
    parts = FENCE.split(text)
    place.parent.mkdir(parents=True, exist_ok=True)
    prose = (part if part.startswith("```") else LINK.sub(moved, part).replace("][", "]\\[") for part in parts)
    place.write_text("".join(prose))


def examples_page() -> str:
    """The examples, each with the first line of what it says about itself."""
    lines = ["# Examples", ""]
    for path in sorted((DOCS / "examples").glob("*.py")):
        says = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
        lines.append(f"- [{path.name}]({path.name}): {says}")
    return "\n".join([*lines, "- [scores.csv](scores.csv): 5,000 made-up people with an age and a score", ""])


def notebook_page(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(
        cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```" for cell in cells
    )


def reference() -> str:
    """The public names, each with its docstring."""
    lines = ["# API reference", "", "Everything that `import parley` gives."]
    for module, names in parley._PLACES.items():
        for name in names:
            # What a decorated name stands for has the docstring.
            found = getattr(parley, name)
            meant = inspect.unwrap(found).__qualname__ if inspect.isfunction(found) else name
            lines += ["", f"## {name}", "", f"::: {module}.{meant}", "    options:", "      show_root_heading: false"]
    return "\n".join(lines) + "\n"


def make(out: Path) -> None:
    """The whole site, or an error that names the broken link."""
    with tempfile.TemporaryDirectory() as name:
        pages = Path(name) / "pages"
        pages.mkdir()
        for source in (*TOP, *sorted(DOCS.rglob("*.md"))):
            if source.is_file():
                write_page(source, source.read_text(), pages)
        for notebook in sorted((DOCS / "notebooks").glob("*.ipynb")):
            write_page(notebook, notebook_page(notebook), pages)
        write_page(DOCS / "examples" / "README.md", examples_page(), pages)
        (pages / "api.md").write_text(reference())
        handler = {"paths": [str(ROOT)], "options": {"show_source": False, "docstring_section_style": "list"}}
        config = load_config(
            config_file=str(ROOT / "docs" / "site.yml"),
            docs_dir=str(pages),
            site_dir=str(out.absolute()),
            nav=[{title: listed} for title, listed in NAVIGATION.items()],
            plugins=["search", {"mkdocstrings": {"handlers": {"python": handler}}}],
            strict=True,
        )
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site")
