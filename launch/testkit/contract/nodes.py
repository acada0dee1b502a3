"""Whole nodes in virtual time: what is seen of them from outside must be the same for every input.

These are the nodes that really run, with their states on disk. Everybody holds the same input, then another one; the
network and its faults are the same each time. What user nodes send, when, how large it is, and how they end may not
differ. What is in their replies does, and so does what an honest analyst makes of it.
"""

import tempfile
from itertools import zip_longest
from pathlib import Path

import numpy as np

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.transport.conditions import Conditions, read_conditions
from parley.emulator.wire.codec import decode
from parley.emulator.wire.messages import Replies
from parley.launch.cluster.fault_driver import READY_MADE
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import make_signers, write_states
from parley.launch.cluster.virtual_run import VirtualRun
from parley.launch.results.folder import RunFolder
from parley.launch.testkit.contract.behaviour import overheard
from parley.launch.testkit.contract.checks import bad, check, good, many, untested
from parley.launch.testkit.contract.scene import Scene
from parley.launch.testkit.verdicts import Verdict
from parley.protocols.registry import check_rounds

CONDITIONS = {"quick": ("", "lossy"), "usual": ("", "lossy", "hostile"), "thorough": ("", "lossy", "hostile", "mobile")}
USERS, NODES, SEED = 8, 2, 5


@check("nodes look alike")
def check_nodes(scene: Scene) -> Verdict:
    """What user nodes send, when, its size, their logs and their ends are the same for every input."""
    protocol, frames = scene.case.protocol, 0
    if protocol.claim.trusts == "shuffler":
        return untested(f"{USERS} users are no crowd for a shuffler to mix")
    try:
        check_rounds(protocol)
    except BadInput as error:
        return untested(f"nodes refuse it: {error!s:.200}")
    for name in CONDITIONS[scene.effort]:
        conditions = read_conditions(READY_MADE / f"{name}.toml") if name else Conditions()
        first = seen_of(scene, 0, conditions)
        frames += len(first)
        for x in range(1, protocol.inputs):
            other = seen_of(scene, x, conditions)
            if other != first:
                pairs = zip_longest(first, other, fillvalue="nothing")
                mine, theirs = next(pair for pair in pairs if pair[0] != pair[1])
                where = f"on a {name or 'quiet'} network"
                return bad(f"{where}, nodes with input 0 show {mine!r}, and nodes with input {x} {theirs!r}")
    return good(f"{many(frames, 'observation')} of {NODES} nodes, the same for {protocol.inputs} inputs", seen=frames)


def seen_of(scene: Scene, x: int, conditions: Conditions) -> list[str]:
    """Everything that is seen of user nodes whose users all hold the input x, in its order."""
    layout = Layout(
        protocol=scene.case.protocol,
        inputs=np.full(USERS, x, dtype=np.int64),
        key=key_from_seed(SEED),
        processes=NODES,
        repeatable=True,
        in_memory=True,
    )
    seen: list[str] = []

    def heard(name: str, frame: bytes) -> None:
        if name.startswith("node-"):
            message = decode(frame)
            what = f"round {message.round}, frame {message.chunk}" if isinstance(message, Replies) else ""
            seen.append(f"{run.loop.elapsed:.6f} {name} {message.kind} {len(frame)} bytes {what}")

    signers = make_signers(layout)
    with tempfile.TemporaryDirectory() as place, overheard() as lines:
        folder = RunFolder(run="alike", path=Path(place) / "run", default=False)
        folder.create()
        write_states(layout, folder, signers, None)
        run = VirtualRun(layout, folder, signers, seed=SEED, conditions=conditions, heard=heard)
        try:
            run.play()
        except ParleyError as error:
            seen.append(f"no result: {error}")
    ends = [f"{each.name} ends with {each.status}" for each in run.story.exits if each.name.startswith("node-")]
    return [*seen, *ends, *lines]
