"""How long choosing a protocol takes, said before it begins: who typed too many levels should not wait to find out."""

from parley.protocols.workloads.kendall import SignProduct
from parley.protocols.workloads.workload import Levels, Workload

# Seconds on one core for W = S_a (x) S_b with 96 x 96 inputs, and how they grow with the number of inputs: measured
# from 64 x 64 (7 s) to 128 x 128 (69 s).
SECONDS, INPUTS, GROWTH = 25.0, 96 * 96, 1.75
# Protocols of which every constant is worked out; the others are made at once.
SEARCHED = ("auto", "all", "one-round-tuned", "two-round-tuned")
WORTH_SAYING_SECONDS = 10.0
MANY = 512


def warning(question: Workload | Levels, protocol: str) -> str | None:
    """A sentence about the time that choosing the protocol takes; None where it is short."""
    if isinstance(question, Levels) or not any(name in SEARCHED for name in protocol.split(",")):
        return None
    shape = "x".join(map(str, question.shape))
    advice = "fewer levels are faster"
    if isinstance(question, SignProduct):
        seconds = SECONDS * (question.size / INPUTS) ** GROWTH
        if seconds < WORTH_SAYING_SECONDS:
            return None
        return f"--levels {shape} makes {question.size} inputs; choosing a protocol takes {about(seconds)}; {advice}"
    if question.size < MANY:
        return None
    return f"--levels {shape} is a lot; choosing a protocol may take minutes; {advice}"


def about(seconds: float) -> str:
    """A duration as people say it."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"about {seconds / length:.0f} {unit}"
    return f"about {seconds:.0f} seconds"
