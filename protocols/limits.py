"""The limits on what a setup may cost a user's node; `work.py` says how work is counted.

| limit        | numbers   | of what                                                                  | about          |
|--------------|-----------|--------------------------------------------------------------------------|----------------|
| `MOST_REPLY` | 2^20      | one user's reply in one round: candidates x dimension, categories, coins | 5 ms           |
| `MOST_SETUP` | 2^26      | what a node computes once: a dense matrix, all vectors, a diagonal       | 0.5 GiB, 1 s   |
"""

from collections.abc import Sequence

from parley.emulator.errors import BadInput

MOST_REPLY = 1 << 20
MOST_SETUP = 1 << 26


def check_many(inputs: int) -> None:
    """Vectors and oracles are as long as there are inputs: refused before anything that long is made."""
    if inputs > MOST_REPLY:
        raise BadInput(f"{inputs} inputs are more than the limit of {MOST_REPLY}; use fewer levels")


def check_setup(what: str, rows: int, columns: int) -> None:
    """Refuse a rows x columns computation that every node would have to do."""
    if rows * columns > MOST_SETUP:
        raise BadInput(
            f"{what} takes {rows} x {columns} numbers, more than the limit of {MOST_SETUP} a node computes once; "
            "use fewer levels"
        )


def affordable(sizes: Sequence[int], ambient: int) -> list[int]:
    """Of increasing numbers of candidates, those that a codebook in this dimension may have; at least the first."""
    return [size for size in sizes if size == sizes[0] or size // 2 * ambient <= MOST_REPLY]
