"""A protocol of one's own: every user sends one noisy vector, decided by a single coin between two hemispheres.

parley run --protocol-file docs/examples/own_protocol.py --protocol one-hemisphere \
    --statistic gini-diversity --levels 4 --epsilon 2 --users 500
"""

from functools import cached_property

import parley


class OneHemisphere(parley.Pairwise):
    """h'(W - cJ)h = (Ah)'D(Ah): the square of the mean of all vectors, less the noise's own square.

    Formal guarantee: eps-LDP, from the hemisphere randomizer, which is used once.
    """

    name = "one-hemisphere"
    summary = "An example: one vector per user from the hemisphere randomizer"

    @cached_property
    def factors(self):
        return parley.signed(parley.factorize(self.workload))

    @cached_property
    def vrand(self):
        # Two candidates, a direction and its negative: the hemisphere randomizer.
        sizes = {"dimension": self.factors.rows, "radius": self.factors.radius}
        return parley.Codebook(**sizes, epsilon=self.form_epsilon, candidates=2, top=1)

    @parley.sends
    def vector(self):
        """Each user sends y = VRand(A 1_x)."""
        return {"y": parley.Send(self.vrand, self.factors.factor), **self.side_queries}

    script = (vector,)

    def analyst(self):
        """The mean of y estimates Ah."""
        heard = yield parley.Ask(self.vector)
        y, noise = heard.mean("y"), heard.variance("y")
        form = self.factors.bilinear(y, y) - self.factors.signs.sum() * noise
        variance = 4 * noise * min(self.factors.radius**2, y @ y) + 2 * self.factors.rows * noise**2
        return self.finish(form, heard, variance=variance)
