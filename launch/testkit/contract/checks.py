"""What a check of the contract is: a title and a function that looks at a scene."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from parley.launch.testkit.contract.play import CRASHES
from parley.launch.testkit.contract.scene import Scene
from parley.launch.testkit.verdicts import Verdict, failed, passed, unknown


@dataclass(frozen=True)
class Check:
    """Gives a verdict even where the protocol's own code breaks down: that is one, too."""

    title: str
    function: Callable[[Scene], Verdict]

    @property
    def says(self) -> str:
        """What is to hold, in one sentence."""
        return (self.function.__doc__ or "").strip().split("\n\n")[0]

    def __call__(self, scene: Scene) -> Verdict:
        try:
            found = self.function(scene)
        except CRASHES as error:
            found = bad(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        return replace(found, check=self.title)


def check(title: str) -> Callable[[Callable[[Scene], Verdict]], Check]:
    """Mark a function as the check of this title."""
    return lambda function: Check(title, function)


def many(count: int, noun: str) -> str:
    """1 round, 2 rounds."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# Verdicts of a check, which gives them its title.
def good(says: str, **evidence: Any) -> Verdict:
    return passed("", says, **evidence)


def bad(says: str, **evidence: Any) -> Verdict:
    return failed("", says, **evidence)


def untested(says: str, **evidence: Any) -> Verdict:
    return unknown("", says, **evidence)
