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
