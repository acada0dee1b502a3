"""Private pairwise statistics: `parley.problem(...)`, then `.plan`, `.simulate` or `.run` (see launch/api.py)."""

from launch.answer import Answer
from launch.api import Problem, coded_problem, problem

__all__ = ["Answer", "Problem", "coded_problem", "problem"]
