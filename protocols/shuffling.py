"""What protocols of the shuffle model share: whom users trust, how replies are mixed, and how few of them may be posted.

The shuffler knows no protocol. What it must do is in the setup's parameter `shuffle`, which every user reads too:
- `crowd`: with fewer replies than this nothing is posted. Both the amplification and the noise of sums are computed for
  so many honest users.
- `axes`: columns whose entries are messages of their own. A column of shape (n, s, ..., t) with `axes` 1 is mixed, for
  each of its s coordinates apart, over all n * ... * t entries. All other columns move together, a row being a message.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from emulator.errors import BadInput
from protocols.parameters import MOST_USERS, count, mapping, only

DEFAULT_DELTA = 1e-6
PROTECTS = (
    "the analyst and everyone who sees the transcript, if the shuffler keeps to itself who sent what; "
    "the shuffler alone, if replies are sealed for the analyst"
)


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """The rule the shuffler follows."""

    crowd: int
    axes: Mapping[str, int] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """What Setup carries."""
        return {"crowd": self.crowd, "axes": dict(self.axes)}


def read_crowd(parameters: Mapping[str, Any], users: int, axes: Mapping[str, int]) -> int:
    """The crowd of a setup that mixes exactly as this protocol must be mixed."""
    rule = mapping(parameters, "shuffle")
    only(rule, "crowd", "axes")
    if dict(mapping(rule, "axes")) != dict(axes):
        raise BadInput(f"this protocol's replies are to be mixed along {dict(axes)}, not {rule['axes']!r:.80}")
    return count(rule, "crowd", 2, min(users, MOST_USERS))


def check_crowd(crowd: int, users: int) -> int:
    """A number of users that can be demanded of a batch."""
    if not 2 <= crowd <= users:
        raise BadInput(f"a crowd of {crowd} cannot be demanded of {users} users; give a number from 2 to {users}")
    return crowd
