"""What a wallet remembers: its terms, and an entry for each run, question and reply. Enough to build it again."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Broadcast, Trust
from parley.emulator.randomizer import Columns, Integers

Mode = Literal["sum", "constant"]
Mask = NDArray[np.bool_]

LARGEST_CAP = 1000.0
MOST_USERS = 10**8
MOST_INPUTS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a wallet was made for; never changed afterwards. In the mode "sum" inputs and domain say nothing."""

    users: int
    mode: Mode
    cap: float
    delta_cap: float = 0.0
    inputs: int = 0
    domain: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.users <= MOST_USERS:
            raise BadInput(f"a wallet cannot be for {self.users} users; give a number from 1 to {MOST_USERS}")
        if self.mode not in get_args(Mode):
            raise BadInput(f"a wallet cannot count by {self.mode!r:.80}; use {' or '.join(get_args(Mode))}")
        if not 0 < self.cap <= LARGEST_CAP:
            raise BadInput(f"the cap {self.cap} cannot be used; give a positive number up to {LARGEST_CAP:g}")
        if not 0 <= self.delta_cap < 1:
            raise BadInput(f"the delta cap {self.delta_cap} cannot be used; give a number from 0 to below 1")
        if self.mode == "constant" and not 2 <= self.inputs <= MOST_INPUTS:
            raise BadInput(f"a wallet cannot cover {self.inputs} inputs; give a number from 2 to {MOST_INPUTS}")


@dataclass(frozen=True, kw_only=True)
class View:
    """What a run's inputs are: the wallet's own, a coarsening of them (fine -> coarse input), or another domain."""

    domain: Mapping[str, Any] | None = None
    coarsening: Integers | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Accepted:
    """A run's terms, who takes part, and what is charged now and for good instead of by what is said."""

    run: str
    protocol: str
    parameters: Mapping[str, Any]
    trusts: Trust
    view: View
    flat: bool
    epsilon: int
    delta: int
    mask: Mask


@dataclass(frozen=True, kw_only=True, eq=False)
class Granted:
    """A question, whom it was put to, who answers, and what an answer counts until it is known."""

    run: str
    round: int
    broadcast: Broadcast
    reserved: int
    asked: Mask
    mask: Mask


@dataclass(frozen=True, kw_only=True, eq=False)
class Said:
    """Replies of the users at these places, fixed before they are sent."""

    run: str
    round: int
    places: Integers
    columns: Columns


Entry = Accepted | Granted | Said
