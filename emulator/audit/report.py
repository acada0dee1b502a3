"""All checks of one transcript, in one report."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.audit.authorship import check_authorship
from parley.emulator.audit.empirical import check_empirical
from parley.emulator.audit.fidelity import check_fidelity
from parley.emulator.audit.integrity import check_integrity, kind_of_board
from parley.emulator.audit.privacy import check_privacy
from parley.emulator.audit.result import check_result
from parley.emulator.audit.rounds import check_rounds
from parley.emulator.audit.shards.checks import check_shards_integrity, checks_of_shards
from parley.emulator.audit.shuffled import check_shuffled_fidelity, check_shuffled_privacy
from parley.emulator.audit.side_channels import check_side_channels
from parley.emulator.audit.verdict import NotTested, Outcome, Verdict, unknown
from parley.emulator.coins import fresh_key
from parley.emulator.errors import ParleyError, TranscriptError
from parley.emulator.protocol import Builder
from parley.emulator.record.conversation import KEPT_BYTES, Conversation, Progress, listen, quiet
from parley.emulator.record.shards import ShardedReader, read_run
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import BoardRole
from parley.emulator.wire.signatures import Keys

# What must be shown, not merely not refuted, before a run is called good.
NEEDED = ("integrity", "rounds", "privacy")
ONE_OF_SEVERAL = "this is one of several records of its run; audit the folder of the run, which has them all"
ANONYMOUS = "replies are anonymous: whose they are, and when they were sent, only the shuffler saw"
CHECKS = ("integrity", "authorship", "rounds", "privacy", "fidelity", "side_channels", "result")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A verdict a check, and which of them must pass."""

    verdicts: Mapping[str, Verdict]
    needed: tuple[str, ...] = NEEDED

    @property
    def ok(self) -> bool:
        """No check failed, and those that need nothing but what was given passed."""
        return not self.named("fail") and all(self.verdicts[name].verdict == "pass" for name in self.needed)

    def named(self, verdict: Outcome) -> list[str]:
        return [name for name, each in self.verdicts.items() if each.verdict == verdict]

    def record(self) -> dict[str, Any]:
        return {"ok": self.ok, **{name: verdict.record() for name, verdict in self.verdicts.items()}}


# The checks keep all cores busy themselves; threads of linear algebra would only stand in their way.
@one_thread()
def audit(
    source: Path | TranscriptReader | Conversation,
    build: Builder,
    *,
    witness: Witness | None = None,
    keys: Keys | None = None,
    sample: int | None = None,
    trials: int | None = None,
    generator: np.random.Generator | None = None,
    progress: Progress = quiet,
) -> Report:
    """Audit a transcript; BadInput only where there is no file to read. With `trials`, the experiment as well.

    A conversation that was heard to its end is not heard again.
    `keys`: whose signatures count, from outside the record. With them authorship must be shown, not merely not refuted.
    """
    needed = NEEDED if keys is None else (*NEEDED, "authorship")
    given = source.reader if isinstance(source, Conversation) else source
    reader = given if isinstance(given, TranscriptReader) else _open(given)
    sharded = reader if isinstance(reader, ShardedReader) else None
    if sharded is not None:
        integrity = check_shards_integrity(sharded, progress)
    else:
        integrity = check_integrity(reader or given, progress)
        if integrity.verdict == "pass" and reader is not None and kind_of_board(reader) is not BoardRole:
            integrity = unknown(ONE_OF_SEVERAL, **integrity.evidence)
    try:
        conversation = source if isinstance(source, Conversation) else listen(reader or given, build, progress)
    except TranscriptError:
        unread = {name: unknown("the record cannot be read: see integrity") for name in CHECKS}
        return Report(verdicts=unread | {"integrity": integrity}, needed=needed)
    generator = generator or np.random.default_rng()
    privacy = partial(check_privacy, sample=sample, generator=generator)
    checks: dict[str, Callable[[], Verdict]] = {
        "authorship": lambda: check_authorship(conversation, keys),
        "rounds": lambda: check_rounds(conversation),
        "privacy": lambda: privacy(conversation),
        "fidelity": lambda: check_fidelity(conversation, witness, generator),
        "side_channels": lambda: check_side_channels(conversation, witness),
        "result": lambda: check_result(conversation),
    }
    if integrity.reason == ONE_OF_SEVERAL:
        checks["result"] = lambda: unknown(ONE_OF_SEVERAL)
    if sharded is not None:
        checks |= checks_of_shards(conversation, sharded, build, keys, privacy)
    if trials is not None:
        checks["empirical"] = lambda: check_empirical(conversation, trials, fresh_key(), generator)
    if conversation.protocol is not None and conversation.protocol.claim.trusts == "shuffler":
        # The checks that are others where replies are anonymous.
        checks["privacy"] = lambda: check_shuffled_privacy(conversation)
        checks["fidelity"] = lambda: check_shuffled_fidelity(conversation, witness)
        checks |= {name: lambda: unknown(ANONYMOUS) for name in ("side_channels", "empirical") if name in checks}
    verdicts = {"integrity": integrity, **{name: _attempt(check) for name, check in checks.items()}}
    return Report(verdicts=verdicts, needed=needed)


def _open(source: Path) -> TranscriptReader | None:
    """All records of a run; None where the first cannot be read, which is for the check of integrity to say."""
    try:
        return read_run(source, keep=KEPT_BYTES)
    except TranscriptError:
        return None


def _attempt(check: Callable[[], Verdict]) -> Verdict:
    """A verdict in any case: a setup may describe a protocol that can be built and yet not be spoken."""
    try:
        return check()
    except ParleyError as error:
        return unknown(str(error) if isinstance(error, NotTested) else f"the check could not be made: {error}")
