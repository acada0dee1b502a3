"""Text for a terminal: what a peer or a file supplied without power over it, what we say in lines that fit."""

import json
import textwrap
from typing import Any

DELETE = "\x7f"


def printable(text: str) -> str:
    """The text with everything invisible shown as an escape, such as `\\x1b`, `\\n` or `\\u202e`.

    That is all that Unicode does not call printable: control characters, line breaks, bidirectional overrides and
    other formatting, lone surrogates. Printable text stays as it is, so doing this twice changes nothing.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def printable_lines(text: str) -> str:
    """The same for text of several lines that we composed ourselves: its line feeds stay."""
    return "\n".join(map(printable, text.split("\n")))


def fitted(text: str, indent: int = 2) -> str:
    """A line of ours broken between words into lines of 80 columns; all but the first are indented."""
    return textwrap.fill(text, 80, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False)


def printable_json(value: Any, indent: int | None = None) -> str:
    """JSON that is safe to print. The json module escapes everything that is not ASCII, and of ASCII all but DEL.

    What JSON cannot hold is described: an array by its type and shape, anything else by its type.
    """

    def described(value: Any) -> str:
        whole = hasattr(value, "dtype") and hasattr(value, "shape")
        return f"{value.dtype} {value.shape}" if whole else type(value).__name__

    return json.dumps(value, indent=indent, default=described).replace(DELETE, "\\u007f")
