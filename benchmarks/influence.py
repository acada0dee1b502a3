"""How far one crafted reply moves an estimate: `python -m benchmarks.influence [--write]`, for the threat model."""

import sys

from benchmarks.page import PAGE, table, write_block
from parley.emulator.errors import BadInput
from parley.protocols.planning.influence import influence
from parley.protocols.planning.plan import statistics_names
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall

USERS, EPSILON, LEVELS = 10_000, 1.0, (8, 8)


def rows() -> list[tuple[str, str, str, str]]:
    """A row for each protocol, the one that a reply moves least first."""
    found: list[tuple[float, tuple[str, str, str, str]]] = []
    for name in statistics_names():
        try:
            most = influence(design(name, Kendall(levels=LEVELS), epsilon=EPSILON, users=USERS), USERS)
        except BadInput:
            continue
        found.append((most.crafted, (f"`{name}`", f"{most.crafted:.2g}", f"{most.lie:.2g}", f"{most.ratio:.2g}")))
    return [row for _, row in sorted(found)]


def main() -> None:
    text = table(("protocol", "a crafted reply", "a lie about one's input", "ratio"), rows())
    print(text)
    if "--write" in sys.argv[1:]:
        write_block("influence", text, PAGE.with_name("threat-model.md"))


if __name__ == "__main__":
    main()
