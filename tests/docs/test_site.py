"""The documentation as a site: built without network, strict about broken links, with a reference from docstrings."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import parley
from tests.launch.conftest import ROOT

REMOTE = re.compile(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']?(?:https?:)?//[^ \"'>]*")


@pytest.fixture(scope="module")
def maker() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "site.py"))


@pytest.fixture(scope="module")
def site(maker: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    maker["make"](out)
    return out


def test_every_page_is_there(maker: dict[str, Any], site: Path) -> None:
    listed = [page for pages in maker["NAVIGATION"].values() for page in pages]
    for page in listed:
        named = Path(page)
        folder = named.parent if named.stem in ("index", "README") else named.with_suffix("")
        assert (site / folder / "index.html").is_file(), page


def test_the_reference_has_every_public_name_with_its_docstring(site: Path) -> None:
    text = (site / "api" / "index.html").read_text()
    for name in (each for names in parley._PLACES.values() for each in names):
        assert f">{name}<" in text or f'id="{name.lower()}' in text, name
    first = (parley.problem.__doc__ or "").splitlines()[0]
    assert first in " ".join(re.sub(r"<[^>]+>", "", text).split())


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        found = [each for each in REMOTE.findall(page.read_text()) if "canonical" not in each]
        assert not found, f"{page}: {found[:3]}"


def test_a_broken_link_is_named(maker: dict[str, Any], tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial.md"
    with pytest.raises(SystemExit, match=r"docs/tutorial\.md: nowhere\.md does not exist"):
        maker["write_page"](page, "See [this](nowhere.md).", tmp_path)
    maker["write_page"](page, "```\n[code](nowhere.md)\n```\n", tmp_path)
