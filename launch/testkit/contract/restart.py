"""What a process remembers, or has of its own: one that has just started must do what any other does.

A node or an analyst that was killed comes back as another process, with an empty memory and other hashes of strings. It
is told the setup, and then perhaps a question of a liar. So a process is started that hears of the last round first.
What it does is compared with what is done here, where honest runs came before.
"""

import hashlib
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import key_from_seed
from parley.emulator.errors import ParleyError, RemoteProtocolError
from parley.emulator.protocol import Broadcast, Inputs, Protocol
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode, pack, unpack
from parley.launch.testkit.contract.checks import bad, check, good, many, untested
from parley.launch.testkit.contract.play import flips
from parley.launch.testkit.contract.scene import Scene
from parley.launch.testkit.verdicts import Verdict
from parley.protocols import plugins, registry

BROADCASTS = {"quick": 16, "usual": 40, "thorough": 120}
USERS = {"quick": 40, "usual": 120, "thorough": 240}
SEED = 12
LIMIT_SECONDS = 300.0
Asked = Mapping[str, Sequence[Broadcast]]
"""Broadcasts of every round, by its number."""


@check("a restart changes nothing")
def check_restart(scene: Scene) -> Verdict:
    """Questions, replies and results of a process that has just started are those of any other."""
    protocol, most = scene.case.protocol, BROADCASTS[scene.effort]
    asked: Asked = {str(number): looked.some(most) for number, looked in scene.rounds.items()}
    inputs = scene.case.inputs(USERS[scene.effort])
    file = "" if protocol.name in registry.BUILT_IN else inspect.getfile(type(protocol))
    told = {"file": file, "name": protocol.name, "parameters": protocol.parameters(), "asked": asked, "inputs": inputs}
    ran = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import main; main()"],
        input=pack(told),
        capture_output=True,
        # In no two processes a set of strings need have the same order.
        env={**os.environ, "PYTHONHASHSEED": str(SEED)},
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if ran.returncode:
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return untested(f"it cannot be loaded by another process: {''.join(last):.200}")
    theirs = ran.stdout.decode().splitlines()
    mine = list(answers(protocol, asked, inputs))
    for here, there in zip(mine, theirs, strict=True):
        if here != there:
            return bad(f"a process that has just started differs in {here.rsplit(maxsplit=1)[0]}")
    return good(f"{many(len(mine), 'answer')} of a process that has just started, the same as here", answers=len(mine))


def answers(protocol: Protocol, asked: Asked, inputs: Inputs) -> Iterator[str]:
    """All that a process does, each with its digest: what it makes of questions, its replies, and a whole run."""
    every, steps = np.arange(protocol.inputs), protocol.rounds[::-1]
    with one_thread():
        for step in steps:
            for place, public in enumerate(asked[str(step.number)]):
                parts = [b"refused"]
                try:
                    step.check_broadcast(public)
                    sent = step.sends(public)
                    parts = [b"%r%r" % (name, send.randomizer.epsilon) for name, send in sent.items()]
                    parts += [np.ascontiguousarray(send.at(every)).tobytes() for send in sent.values()]
                except RemoteProtocolError:
                    pass
                yield f"what users hide in round {step.number}, broadcast {place} {_digest(parts)}"
        for step in steps:
            coins = flips(step.coins, len(inputs), np.random.default_rng([SEED, step.number]))
            for place, public in enumerate(asked[str(step.number)]):
                parts = [b"refused"]
                try:
                    replies = step.respond(public, inputs, coins)
                    parts = [replies[name].tobytes() for name in sorted(replies)]
                except RemoteProtocolError:
                    pass
                yield f"the replies of round {step.number} to broadcast {place} {_digest(parts)}"
        try:
            for number, (sender, message) in enumerate(conversation(protocol, inputs, key_from_seed(SEED))):
                yield f"word {number} of a run, a {message.kind} of {sender} {_digest([encode(message)])}"
        except ParleyError as error:
            yield f"the end of a run {_digest([str(error).encode()])}"


def _digest(parts: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main() -> None:
    """Print the answers of this process, which has just started."""
    told = unpack(sys.stdin.buffer.read())
    if told["file"]:
        plugins.add_file(Path(told["file"]))
    protocol = registry.lookup(told["name"]).from_parameters(told["parameters"])
    for each in answers(protocol, told["asked"], told["inputs"]):
        print(each)
