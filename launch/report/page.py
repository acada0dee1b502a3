"""One self-contained HTML file: template, style, scripts and data in one, and a policy that lets it load nothing."""

import base64
import hashlib
import html
import json
import os
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from parley.emulator.audit.verdict import as_json
from parley.launch.results.folder import whole_file

SCRIPTS = ("build", "chart", "answer", "facts", "sequence", "replies", "loss", "budget", "faults", "messages", "main")
DATA = '<script type="application/json" id="data">'
ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def safe_json(value: Any) -> str:
    """JSON that can stand inside a script element: nothing in it can end the element or open a comment."""
    text = json.dumps(as_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text.translate(ESCAPES)


def render(model: dict[str, Any]) -> str:
    """The page. Everything from the record is data; the template takes nothing else from it but the escaped title."""
    style = _asset("style.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(f"{name}.js") for name in SCRIPTS) + "\n})();\n"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = html.escape(f"{model['title']} — Parley")
    parts = {"policy": policy, "title": title, "style": style, "data": safe_json(model), "script": script}
    # All at once, not one after the other: data that spells a placeholder stays data.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def write_page(path: Path, model: dict[str, Any]) -> None:
    """Write the page whole or not at all; what an emulation knows is for its owner alone."""
    mode = 0o600 if model["emulation"] else 0o644
    with whole_file(path) as fresh:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(render(model))


def read_model(path: Path) -> dict[str, Any]:
    """The model a page was made from."""
    text = path.read_text(encoding="utf-8")
    start = text.index(DATA) + len(DATA)
    model = json.loads(text[start : text.index("</script>", start)])
    assert isinstance(model, dict)
    return model


@cache
def _asset(name: str) -> str:
    return files("parley.launch.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
