"""Theorem alg-interactive-app, verbatim: three rounds, eps/4 four times, clipping at tau = 4|W|.

h'Wh = <Lh, Rh> = <Lh, mu> + <Lh, Rh - mu>: the first round finds mu near Rh, the second measures Lh and <Lh, mu>,
the third measures <Y, Rh - mu>, whose noise is small because Rh - mu is.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from parley.emulator.protocol import Analyst, Ask, Send, Sends, require, sends
from parley.emulator.randomizer import Floats
from parley.protocols.paper.two_factors import TwoFactors, clip

# A broadcast mu is rounded to float64; the inequality a user checks must not fail for that.
ROUNDING = 1e-9
# Any point of R^Delta is private and leaves the estimate unbiased; this near to the nearest one is near enough.
TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class ThreeRound(TwoFactors):
    """The paper's interactive algorithm.

    Formal guarantee: eps-LDP against any analyst. The four replies are eps/4 each: two vectors from a codebook; a,
    whose range a user checks itself and refuses to answer if it is too wide; v, which is clipped.
    """

    name: ClassVar[str] = "three-round"
    summary: ClassVar[str] = "Theorem alg-interactive-app: project, correct, correct again; eps/4 four times"
    parts: ClassVar[int] = 4

    # Whether the interval knows what clipping does; older records do not say so, and theirs does not.
    clipping: bool | None = None

    @property
    def tau(self) -> float:
        return 4 * self.norm

    @sends
    def first(self) -> Sends:
        """Each user sends y^R = VRand(R 1_x)."""
        return {"y_R": Send(self.vrand, self.R), **self.side_queries}

    @sends(mu="d")
    def second(self, mu: Floats) -> Sends:
        """Each user sends y^L = VRand(L 1_x) and a = <L 1_x, mu> + kappa, if mu is in R^Delta."""
        inner = self.L.T @ mu
        require(np.abs(inner).max() <= self.norm * (1 + ROUNDING), "mu is not in R^Delta: <L 1_x, mu> exceeds |W|")
        return {"y_L": Send(self.vrand, self.L), "a": Send(self.laplace(self.norm), inner)}

    @sends(mu="d", Y="d")
    def third(self, mu: Floats, Y: Floats) -> Sends:
        """Each user sends v = clip_tau(<Y, R 1_x - mu>) + z."""
        return {"v": Send(self.laplace(self.tau), clip(self.R.T @ Y - Y @ mu, self.tau))}

    script = (first, second, third)

    def analyst(self) -> Analyst:
        """Theorem proj gives mu, the means of the others are what they estimate."""
        from parley.protocols.projection.l1_projection import project_l1
        from parley.protocols.projection.simplex_projection import densified

        one = yield Ask(self.first)
        mu = project_l1(densified(self.R), one.mean("y_R"), tolerance=TOLERANCE).point
        two = yield Ask(self.second, mu=mu)
        three = yield Ask(self.third, mu=mu, Y=two.mean("y_L"))
        return self.finish(two.mean("a") + three.mean("v"), one, two, three)
