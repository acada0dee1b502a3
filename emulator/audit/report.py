"""All checks of one transcript, in one report."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emulator.audit.conversation import listen
from emulator.audit.integrity import check_integrity
from emulator.audit.privacy import MOST_BYTES, check_privacy
from emulator.audit.result import check_result
from emulator.audit.rounds import check_rounds
from emulator.audit.verdict import Progress, Verdict, quiet, unknown
from emulator.errors import TranscriptError
from emulator.roles import Builder
from emulator.witness import Witness

# What must be shown, not merely not refuted, before a run is called good.
NEEDED = ("integrity", "rounds", "privacy")
CHECKS = ("integrity", "rounds", "privacy", "fidelity", "side_channels", "result")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A verdict a check."""

    verdicts: Mapping[str, Verdict]

    @property
    def ok(self) -> bool:
        """No check failed, and those that need nothing but the transcript were made."""
        return all(each.verdict != "fail" for each in self.verdicts.values()) and all(
            self.verdicts[name].verdict == "pass" for name in NEEDED
        )

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"ok": self.ok, **{name: verdict.record() for name, verdict in self.verdicts.items()}}


def audit(
    path: Path,
    build: Builder,
    *,
    witness: Witness | None = None,
    sample: int | None = None,
    generator: np.random.Generator | None = None,
    progress: Progress = quiet,
    most_bytes: int = MOST_BYTES,
) -> Report:
    """Audit a transcript; BadInput only where there is no file to read."""
    integrity = check_integrity(path, progress)
    try:
        conversation = listen(path, build)
    except TranscriptError:
        reason = "the record cannot be read: see integrity"
        return Report(verdicts={name: unknown(reason) for name in CHECKS} | {"integrity": integrity})
    privacy = check_privacy(conversation, sample=sample, generator=generator, progress=progress, most_bytes=most_bytes)
    return Report(
        verdicts={
            "integrity": integrity,
            "rounds": check_rounds(conversation),
            "privacy": privacy,
            "fidelity": unknown("there is no witness: inputs and coins are not known"),
            "side_channels": unknown("there is no witness: inputs are not known"),
            "result": check_result(conversation),
        }
    )
