"""Histograms to plan with when nobody has a better guess; all public."""

import numpy as np

from parley.emulator.randomizer import Floats
from parley.protocols.workloads.workload import Levels, Workload


def public_guesses(workload: Workload | Levels) -> list[Floats]:
    """Gently rising shares, and a bump in the middle.

    Equal shares would be a bad guess: there the diversity index has no slope, and one-round protocols shine.
    """
    places = (np.arange(workload.size) + 0.5) / workload.size
    shapes = [1 + 2 * places, np.exp(-((places - 0.5) ** 2) * 18)]
    return [shape / shape.sum() for shape in shapes]


def rising_scores(levels: int) -> Floats:
    """A guess of the AUC's scores and labels: one positive in four, likelier the higher the score."""
    scores = np.arange(levels)
    negative, positive = 0.75 * (levels - scores), 0.25 * (scores + 1.0)
    joint: Floats = np.stack([negative, positive], axis=1).reshape(-1) * 2 / (levels * (levels + 1))
    return joint
