"""The parts of docs/protocols.md that are made from the source: `python -m tests.docs.tables --write`.

Words are the docstrings of modules, classes and methods; code is what stands below them.
"""

import html
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from parley.protocols.outline import example, outline, said_of, source_of
from parley.protocols.planned import Planned
from parley.protocols.registry import BUILT_IN, lookup

TOLD_ELSEWHERE = ("analyst", "truth", "inputs_of")


def overview() -> str:
    """Every protocol in a line."""
    lines = ["| name | rounds | interaction | users trust | in short |", "|---|---|---|---|---|"]
    for name in BUILT_IN:
        claim = example(name).claim
        said = words(lookup(name).summary).replace("|", "\\|")
        lines.append(f"| `{name}` | {claim.rounds} | {claim.interaction} | {claim.trusts} | {said} |")
    return "\n".join(lines)


def protocols() -> str:
    """Every protocol as text and code side by side, and what several of them share."""
    shown: list[str] = []
    shared: dict[type[Any], list[str]] = {}
    told: set[str] = set()
    for name in BUILT_IN:
        protocol = example(name)
        shown.append("\n\n".join(_protocol(protocol, told)))
        for base in _bases(type(protocol)):
            shared.setdefault(base, []).append(name)
    for base, names in shared.items():
        shown.append("\n\n".join(_shared(base, names, told)))
    return "\n\n".join(shown)


def _protocol(protocol: Any, told: set[str]) -> Iterator[str]:
    kind, drawn = type(protocol), outline(protocol)
    yield f"### {protocol.name}"
    yield from _head(kind, told)
    for each in drawn["rounds"]:
        sends = "; ".join(f"`{send['name']}` by `{send['randomizer']}`" for send in each["sends"])
        broadcast = ", ".join(f"`{name}`" for name in each["broadcast"])
        heard = f"The analyst broadcasts {broadcast}. " if broadcast else ""
        said = f"**Round {each['number']}: {each['name']}.** {heard}{words(each['says'])}\n\nSends {sends}."
        yield _row(said, each["source"])
    yield _row(f"**The analyst.** {words(drawn['analyst']['says'])}", source_of(kind.analyst))
    yield from _helpers(kind)
    yield "</table>"


def _shared(base: type[Any], names: list[str], told: set[str]) -> Iterator[str]:
    yield f"### Shared: {base.__name__}"
    yield f"Used by {', '.join(f'`{name}`' for name in names)}."
    yield from _head(base, told)
    yield from _helpers(base)
    yield "</table>"


def _head(kind: type[Any], told: set[str]) -> Iterator[str]:
    """What its file and its class say, the file's docstring once."""
    module = inspect.getmodule(kind)
    assert module is not None
    if module.__name__ not in told:
        told.add(module.__name__)
        yield words(said_of(module))
    yield words(said_of(kind))
    yield f"In `{module.__name__.removeprefix('parley.').replace('.', '/')}.py`."
    yield "<table>\n<tr><th>in words</th><th>in code</th></tr>"


def _helpers(kind: type[Any]) -> Iterator[str]:
    """Its own properties and functions besides rounds, analyst and truth."""
    found = {
        name: function
        for name, member in vars(kind).items()
        if (function := _function(member)) is not None and not name.startswith("__") and name not in TOLD_ELSEWHERE
    }
    if found:
        told = [f"- `{name}`{f': {words(said)}' if (said := said_of(each)) else ''}" for name, each in found.items()]
        code = "\n\n".join(source_of(each) for each in found.values())
        yield _row("**What it uses.**\n\n" + "\n".join(told), code)


def _function(member: Any) -> Any:
    """What is behind a method or a property; None for a round, which has a row of its own, and for anything else."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    return member if inspect.isfunction(member) and not hasattr(member, "question") else None


def _bases(kind: type[Any]) -> Iterator[type[Any]]:
    """Classes that a protocol has more than the name in common with others by."""
    known = {lookup(name) for name in BUILT_IN}
    for base in kind.__mro__[1:]:
        if issubclass(base, Planned) and base is not Planned and base not in known:
            yield base


def _row(left: str, right: str) -> str:
    return f"<tr><td>\n\n{left}\n\n</td><td>\n\n```python\n{right}\n```\n\n</td></tr>"


def words(text: str) -> str:
    """Text as Markdown shows it: what looks like a tag is none, except in code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else html.escape(part, quote=False) for part in parts)
