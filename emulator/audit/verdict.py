"""What a check says: pass, fail or unknown, why, and the evidence for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["pass", "fail", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One check's answer. What is not a pass has a reason, one sentence that a person can act on."""

    verdict: Outcome
    reason: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As JSON: verdict, reason where there is one, evidence. What is not finite becomes null."""
        reason = {"reason": self.reason} if self.reason else {}
        return {"verdict": self.verdict, **reason, **{name: _json(value) for name, value in self.evidence.items()}}


def passed(**evidence: Any) -> Verdict:
    """Nothing was found."""
    return Verdict(verdict="pass", evidence=evidence)


def failed(reason: str, **evidence: Any) -> Verdict:
    """Something is wrong, and this is what."""
    return Verdict(verdict="fail", reason=reason, evidence=evidence)


def unknown(reason: str, **evidence: Any) -> Verdict:
    """The check could not be made, and why."""
    return Verdict(verdict="unknown", reason=reason, evidence=evidence)


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
