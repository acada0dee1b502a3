"""An iteration that ends before its goal says so: what it found is usable, and the error may be larger than need be."""

import logging

log = logging.getLogger("convergence")


def stopped_short(what: str, reached: float, wanted: float, consequence: str) -> None:
    """One line in the log of whoever computed it, or on the standard error stream of a command."""
    log.warning("%s stopped at a gap of %.3g where %.3g was wanted: %s", what, reached, wanted, consequence)
