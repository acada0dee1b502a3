"""Boards that lie, and records that somebody forged afterwards: all of it must be found, and named."""

from pathlib import Path

import numpy as np

from benchmarks.deeds import Deed, against, audit_of, enter, everybody_leaves, judge, judge_wire, layout_of
from benchmarks.forgeries import all_forgeries
from benchmarks.stage import Lie, Overheard
from benchmarks.treacherous_board import DECLARE, DROP, EQUIVOCATE, REWRITE
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.wire.messages import Close


def equivocating_board(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """One node is asked something other than what is on record: its signed reply says so."""
    act, layout = deed.act, layout_of(deed.act)
    number = next(number for number, step in enumerate(layout.protocol.rounds, 1) if step.broadcast)
    with enter(deed, folder, layout, Lie(kind=EQUIVOCATE, victim=act.victim, round=number)) as stage:
        stage.begin()
        everybody_leaves(deed, stage)
        overheard = Overheard()
        overheard.take(stage)
        deed.expect(overheard.questions_answered(act.victim, number) == 1, "a node answered two broadcasts of a round")
        judge(deed, stage, overheard, exact=False, deceived=True)
        deed.forged += 1
        verdict = audit_of(stage, stage.folder.transcript).verdicts["authorship"]
        said = f"{act.victim} answered a different question in round {number}"
        deed.named += named(deed, verdict.verdict, verdict.record(), said)


def dropping_board(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """A reply is not put on record, and the close names its node or does not: the node finds it."""
    act, layout = deed.act, layout_of(deed.act, quorum=0.2)
    silently = act.variant // 8 % 2 == 0
    number = 1 + act.variant // 16 % len(layout.protocol.rounds)
    lie = Lie(kind=DROP if silently else DECLARE, victim=act.victim, round=number)
    with enter(deed, folder, layout, lie) as stage:
        stage.begin()
        everybody_leaves(deed, stage, act.victim, code=3 if silently else 0)
        stage.wait(BOARD_NAME)
        everybody_leaves(deed, stage, *(name for name in layout.nodes if name != act.victim))
        evidence = stage.folder.node_state(act.victim) / f"evidence-{number}.parley"
        deed.dropped += 1
        deed.expect(evidence.exists(), "a node whose reply was dropped kept no evidence")
        if evidence.exists():
            code, said = against(stage, evidence)
            convinces = code == 1 and f"the reply of {act.victim} in round {number}" in said and "is missing" in said
            deed.expect(convinces, f"evidence against the board does not convince: {code} {said[-300:]}")
            deed.found += convinces
        closes = [message for message in stage.on_record() if isinstance(message, Close) and message.round == number]
        deed.expect(all((act.victim in each.absent) != silently for each in closes), "the board lied in another way")
        overheard = Overheard()
        overheard.take(stage)
        judge(deed, stage, overheard, exact=False, deceived=silently)
        if silently:
            # Who sat there is on record too, so that a reply which nobody speaks of is seen to be missing.
            verdict = audit_of(stage, stage.folder.transcript).verdicts["integrity"]
            named(deed, verdict.verdict, verdict.record(), f"the record lacks '{act.victim}'")


def rewriting_board(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """What was on record when a round was closed is not there at the next close: everybody stops."""
    act, layout = deed.act, layout_of(deed.act)
    with enter(deed, folder, layout, Lie(kind=REWRITE, victim=act.victim, round=2)) as stage:
        stage.begin()
        everybody_leaves(deed, stage, code=3)
        for name in layout.nodes:
            deed.forged += 1
            path = stage.folder.node_state(name) / "evidence-2.parley"
            found = path.exists() and "does not extend the one before" in stage.said(name)
            deed.expect(found, f"{name} did not see that the record was rewritten")
            deed.named += found
        # With a third round it would wait for nodes that have left.
        stage.kill(BOARD_NAME)
        overheard = Overheard()
        overheard.take(stage)
        judge_wire(deed, stage, overheard)


def forged_record(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """Somebody without keys changes the record of a good run, and makes everything fit that can be made to fit."""
    layout = layout_of(deed.act, conditions)
    with enter(deed, folder, layout) as stage:
        stage.begin()
        everybody_leaves(deed, stage)
        overheard = Overheard()
        overheard.take(stage)
        judge(deed, stage, overheard, exact=True)
        generator = np.random.default_rng([deed.act.seed, 11])
        for path, what in all_forgeries(stage.folder.transcript, folder, layout.protocol, generator):
            verdict = audit_of(stage, path).verdicts["authorship"]
            deed.forged += 1
            deed.named += named(deed, verdict.verdict, verdict.record(), f"a forged {what}")


def named(deed: Deed, verdict: str, record: object, what: str) -> bool:
    """Whether the audit fails, and names what it must."""
    found = verdict == "fail" and what in str(record)
    deed.expect(found, f"the audit does not name {what}: {str(record)[:300]}")
    return found
