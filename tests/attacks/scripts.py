"""All attacks, by name."""

from tests.attacks import questions, terms, words
from tests.attacks.table import ATTACKS

__all__ = ["ATTACKS", "questions", "terms", "words"]
