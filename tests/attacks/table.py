"""The attacks: each is what an adversary says to a node, and what the node then has to do.

`answers`: in which rounds the node replies ("all", "none", "before" the last, or "any" where the protocol decides).
`refuses`: whether it says so on record. `code`: how it ends; None while it still waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.attacks.stage import Script

Answers = Literal["all", "none", "before", "any"]
OTHER = bytes(16)


@dataclass(frozen=True)
class Attack:
    """One line of the table."""

    script: Script
    answers: Answers
    refuses: bool
    code: int | None


ATTACKS: dict[str, Attack] = {}


def attack(answers: Answers, *, refuses: bool, code: int | None) -> Callable[[Script], Script]:
    """List a script under its name."""

    def listed(script: Script) -> Script:
        ATTACKS[script.__name__] = Attack(script, answers, refuses, code)  # type: ignore[attr-defined]
        return script

    return listed


refused = attack("none", refuses=True, code=None)
harmless = attack("all", refuses=False, code=0)
