"""What a record says about its own question in its header: a title, the levels, the columns with what was declared.

All of it is declared in public and none of it is read off the data. Levels and columns can be compared with the setup
that the analyst signed; the title is for people, and nobody signs it.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.wire.codec import pack, unpack

FIELD = "question"
LONGEST_TITLE = 120
Question = Mapping[str, Any]


def make_question(title: str, levels: Sequence[int], domain: Mapping[str, Any]) -> dict[str, Any]:
    """The question as plain data; `domain` is what the inputs mean (`domain_of`)."""
    check_title(title)
    columns = {"columns": domain["columns"]} if "columns" in domain else {}
    return {"title": title, "levels": tuple(levels), **columns}


def check_title(title: str) -> None:
    """A title that fits into one line, or BadInput."""
    if not title.isprintable() or not 1 <= len(title) <= LONGEST_TITLE:
        raise BadInput(f"--title must be 1 to {LONGEST_TITLE} printable characters, got {title[:80]!r}")


def read_question(plan: Path) -> Question:
    """The question in the analyst's plan, without building its protocol; BadInput where there is none."""
    try:
        found = unpack(plan.read_bytes())
    except (OSError, RemoteProtocolError) as error:
        raise BadInput(f"the plan {plan} cannot be read: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get(FIELD), dict):
        raise BadInput(f"the plan {plan} does not say what its question is; write it with `parley plan --write`")
    question: Question = found[FIELD]
    return question


def question_in(header: Mapping[str, Any]) -> Question:
    """What a header says about its question; nothing where it says nothing that makes sense."""
    found = header.get(FIELD)
    if not isinstance(found, dict) or not set(found) <= {"title", "levels", "columns"}:
        return {}
    title, levels, columns = found.get("title"), found.get("levels"), found.get("columns", ())
    if not isinstance(title, str) or not isinstance(levels, tuple) or not isinstance(columns, tuple):
        return {}
    whole = all(type(each) is int for each in levels) and all(isinstance(each, dict) for each in columns)
    return found if whole else {}


def unlike(question: Question, domain: Mapping[str, Any], levels: Sequence[int] = ()) -> str:
    """What a question says other than the domain of the setup; empty where they agree.

    `levels` are those of the protocol's columns, where it has any and the domain has none.
    """
    columns, said = question.get("columns", ()), question.get("levels", ())
    if pack(columns) != pack(domain.get("columns", ())):
        return "other columns"
    known = tuple(each.get("levels") for each in columns) or tuple(levels)
    if math.prod(said) != domain.get("inputs") or (known and said != known):
        return "other levels"
    return ""
