"""What happens to the states of user nodes: asked by somebody else, lost, copied, shared, on a full disk."""

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.deeds import EPSILON, Act, Deed, enter, everybody_leaves, has_answered, judge, layout_of, until_answered
from benchmarks.stage import ROOT, Lie, Overheard, Stage
from benchmarks.treacherous_board import DEAF
from parley.emulator.coins import key_from_seed
from parley.emulator.protocol import Protocol
from parley.emulator.roles.board import BOARD_NAME
from parley.emulator.wire.messages import Announce, Ready, Refusal, Replies
from parley.emulator.wire.security import read_trust, write_trust
from parley.nodes.state.user_state import FILE, State
from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_workload

CHANGES = ("inputs", "epsilon", "protocol", "nonce")
# Time enough to answer, for somebody who must not.
WORD_SECONDS = 1.5
# Less than a node writes before its first reply.
ROOM = 250


def another_setup(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """A node is started again on its state before another board and analyst: nothing is answered."""
    act, layout = deed.act, layout_of(deed.act, conditions)
    over, colluding, change = is_over(act.variant), act.variant // 2 % 2 == 0, CHANGES[act.variant // 4 % len(CHANGES)]
    same_nonce = change != "nonce" and act.variant // 16 % 2 == 0
    with enter(deed, folder, layout) as stage:
        stage.begin()
        if over:
            everybody_leaves(deed, stage)
        else:
            until_answered(stage, act.victim)
            stage.kill(act.victim)
        _, count = stage.cohort(act.victim)
        false = replace(
            layout,
            protocol=changed_protocol(act, change, layout.protocol),
            inputs=np.zeros(count, dtype=np.int64),
            processes=1,
            key=layout.key if colluding else key_from_seed(act.seed + 10**6),
            conditions=None,
        )
        nonce = layout.nonce if same_nonce else np.random.default_rng([act.seed, 10]).bytes(16)
        deaf = Lie(kind=DEAF)
        with Stage(false, folder / "false", stage.folder.run, lie=deaf, nonce=nonce, lets_in="anybody") as other:
            other.start_board()
            other.start_analyst()
            stage.start_node(act.victim, process="again", at=other.folder.addresses)
            if over:
                deed.expect(stage.wait("again") == 0, "a node whose run is over did not leave with exit code 0")
                deed.expect(not other.heard(Ready, act.victim), "a node whose run is over said that it is there")
            else:
                stage.until(lambda: any(isinstance(message, Announce) for message in other.on_record()))
                time.sleep(WORD_SECONDS)
                deed.expect(colluding == bool(other.heard(Refusal, act.victim)), "a refusal where none is due, or none")
                stage.kill("again")
            answered = other.heard(Replies, act.victim)
            deed.refused += not answered
            deed.expect(not answered, f"another setup ({change}) was answered")
        if not over:
            stage.start_node(act.victim)
            everybody_leaves(deed, stage)
        overheard = Overheard()
        overheard.take(stage)
        judge(deed, stage, overheard, exact=True)


def is_over(variant: int) -> bool:
    """Whether the run is over when the node is asked by others; otherwise it has answered the first round."""
    return variant % 2 == 0


def changed_protocol(act: Act, change: str, protocol: Protocol) -> Protocol:
    statistic, levels = act.problem
    if change == "inputs":
        levels = "3x4" if "x" in levels else str(int(levels) + 1)
    workload = make_workload(statistic, levels, None)
    other = "frequency-grr" if act.protocol != "frequency-grr" else "one-round"
    if change == "nonce":
        return protocol
    epsilon = EPSILON / 2 if change == "epsilon" else EPSILON
    return design(other if change == "protocol" else act.protocol, workload, epsilon=epsilon, users=act.users)


def lost_state(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """A node comes back without its state, or with a new one: it says nothing, or has no seat."""
    act, layout = deed.act, layout_of(deed.act, conditions, quorum=0.2, deadline=4.0)
    fresh = act.variant // 7 % 2 == 0
    with enter(deed, folder, layout) as stage:
        stage.begin()
        until_answered(stage, act.victim)
        stage.kill(act.victim)
        state = stage.folder.node_state(act.victim)
        (state / FILE).unlink()
        others: dict[bytes, bytes] = {}
        if fresh:
            others = renewed(stage, act.victim)
            stage.start_node(act.victim, process="again")
        else:
            before = {each.pid for each in stage.heard(Ready, act.victim)}
            stage.start_node(act.victim, process="again")
            deed.expect(stage.wait("again") == 2, "a node without a state did not leave with exit code 2")
            deed.expect("there is no state" in stage.said("again"), "a node without a state did not say so")
            deed.expect({each.pid for each in stage.heard(Ready, act.victim)} == before, "it spoke without a state")
            deed.refused += 1
        stage.wait(BOARD_NAME)
        if fresh:
            new = next(iter(others))
            listed = [each for each in stage.on_record() if isinstance(each, Ready) and each.key == new]
            deed.expect(not listed, "a new key took an old seat")
            deed.refused += not listed
        overheard = Overheard()
        said = overheard.take(stage, others)
        deed.expect(not [each for each in said if each.author in others], "a reply left under a new key")
        judge(deed, stage, overheard, exact=False, may_fail=True)


def renewed(stage: Stage, node: str) -> dict[bytes, bytes]:
    """A fresh state in the place of the old one, its coin key by its signing key.

    `parley node init` refuses a new key for a node whose key is listed; this person takes the line off the list.
    """
    first, count = stage.cohort(node)
    folder = stage.folder.node_state(node)
    known = read_trust(stage.folder.trust)
    shorter = folder.with_suffix(".toml")
    write_trust(shorter, {name: key for name, key in known.items() if name != node})
    words = ["--run", stage.folder.run, "--node", node, "--first", first, "--users", count, "--cap", EPSILON]
    words += ["--inputs", stage.layout.protocol.inputs, "--trust", shorter]
    command = [sys.executable, "-m", "parley.nodes.init", str(folder), *map(str, words)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    with State(folder) as state:
        signer = state.identity.signer
        assert signer is not None
        return {signer.public: state.identity.coin_key}


def copied_state(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """Two processes with the same keys: the same bytes to the same question, other coins to another one.

    Before the same board, the copy that comes after a round was closed sees that it is not alone, and stops.
    """
    act, layout = deed.act, layout_of(deed.act, conditions)
    elsewhere = act.variant % 2 == 0
    with enter(deed, folder, layout) as stage:
        original = stage.folder.node_state(act.victim)
        copy = original.with_name("copy")
        shutil.copytree(original, copy)
        overheard = Overheard()
        stage.begin()
        if elsewhere:
            meet_plotters(deed, folder, stage, copy, overheard)
        else:
            stage.start_node(act.victim, process="copy", state=copy)
            late = stage.wait("copy") == 3 and "a reply that this node does not remember" in stage.said("copy")
            deed.expect(late or stage.wait("copy") == 0, f"the copy left in another way: {stage.said('copy')[-300:]}")
        everybody_leaves(deed, stage)
        overheard.take(stage)
        for number in range(1, len(layout.protocol.rounds) + 1):
            questions = overheard.questions_answered(act.victim, number)
            deed.expect(questions <= 1 + elsewhere, f"{questions} questions were answered in round {number}")
            deed.refused += questions == 1
        judge(deed, stage, overheard, exact=True)


def meet_plotters(deed: Deed, folder: Path, stage: Stage, copy: Path, overheard: Overheard) -> None:
    """The copy sits alone before a board and an analyst with the true keys, setup and nonce: later rounds differ."""
    victim = deed.act.victim
    _, count = stage.cohort(victim)
    alone = replace(stage.layout, inputs=stage.layout.inputs[:count], processes=1, conditions=None)
    with Stage(alone, folder / "false", stage.folder.run) as other:
        other.start_board()
        other.start_analyst()
        stage.start_node(victim, process="copy", state=copy, at=other.folder.addresses)
        everybody_leaves(deed, stage, "copy")
        other.wait(BOARD_NAME)
        overheard.take(other)


def shared_state(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """A second process on the folder of one that is there: it refuses."""
    act, layout = deed.act, layout_of(deed.act, conditions)
    with enter(deed, folder, layout) as stage:
        stage.begin(without=layout.nodes[-1:] if act.victim != layout.nodes[-1] else layout.nodes[:1])
        # Somebody is not there yet, so nobody can leave.
        stage.until(lambda: stage.heard(Ready, act.victim))
        stage.start_node(act.victim, process="second")
        deed.expect(stage.wait("second") == 2, "a second process on a state did not leave with exit code 2")
        deed.expect("in use by another process" in stage.said("second"), "a second process did not say why it leaves")
        pids = {each.pid for each in stage.heard(Ready, act.victim)}
        deed.expect(pids == {stage.processes[act.victim].pid}, "a second process spoke")
        deed.refused += 1
        stage.start_node(next(name for name in layout.nodes if name not in stage.processes))
        everybody_leaves(deed, stage)
        overheard = Overheard()
        overheard.take(stage)
        judge(deed, stage, overheard, exact=True)


def full_disk(deed: Deed, folder: Path, conditions: Path | None) -> None:
    """The disk takes nothing or a part of what must be on it before a reply leaves: nothing is said."""
    act = deed.act
    returns, quorum = act.variant // 2 % 2 == 0, 1.0 if act.variant // 4 % 2 else 0.2
    layout = layout_of(act, conditions, quorum=1.0 if returns else quorum, deadline=100.0 if returns else 4.0)
    with enter(deed, folder, layout) as stage:
        size = (stage.folder.node_state(act.victim) / FILE).stat().st_size
        stage.begin(without=[act.victim])
        stage.start_node(act.victim, room=size + act.variant % ROOM)
        deed.expect(stage.wait(act.victim) == 3, "a node on a full disk did not leave with exit code 3")
        said = stage.said(act.victim)
        sentences = [line for line in said.splitlines() if line.startswith("parley: ")]
        deed.expect(len(sentences) == 1 and "cannot be written" in sentences[0], f"it did not say why: {said[-300:]}")
        deed.expect("Traceback" not in said, "it left with a traceback")
        deed.expect(not has_answered(stage, act.victim), "it answered what it could not write down")
        deed.refused += 1
        if returns:
            stage.start_node(act.victim)
            everybody_leaves(deed, stage)
        stage.wait(BOARD_NAME)
        overheard = Overheard()
        overheard.take(stage)
        judge(deed, stage, overheard, exact=returns, may_fail=not returns)
