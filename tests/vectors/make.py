"""Makes the golden transcripts and the bad ones: `python -m tests.vectors.make`.

A golden transcript is one small run of a protocol. It is made once and kept: later versions must read it, find nothing
wrong with it, and replay it byte for byte. A bad one is a golden transcript with one thing wrong; the check named
beside it must reject it. Files that exist are left alone, for old transcripts are the point: delete one to make it
anew, and it comes out with the same bytes. `format1/` holds transcripts from before there were signatures.

Everybody signs, the liars in bad transcripts too: what is wrong is then what they said, and not that they did not say
it. `trust.toml` lists their keys, which follow from the key of every recording in the tests.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.reference.simulate_shuffled import shuffled_conversation
from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import nonce_from_key
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.roles.mixing import keyed_draw
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Close, Ready, Replies, Result, Setup
from parley.emulator.wire.security import write_trust
from parley.emulator.wire.signatures import derived
from parley.protocols.registry import design, names
from parley.protocols.workloads.choice import make_workload
from tests.emulator.audit.recordings import KEY, RUN, Said, inputs_for, replace_first, said_in

HERE = Path(__file__).resolve().parent
FORMAT_1 = HERE / "format1"
TRUST = HERE / "trust.toml"
NONCE = nonce_from_key(KEY)
SPEAKERS = ("analyst", "board", "shuffler", "node-0", "node-1")
EXAMPLES = (("kendall", "3x3"), ("gini-diversity", "4"), ("gini-mean-difference", "4"), ("auc", "4"))
FEW, MANY = 20, 240
BASE = "three-round"


def example(name: str, users: int = FEW) -> Protocol:
    """A registered protocol on the first example that it takes."""
    for statistic, levels in EXAMPLES:
        try:
            return design(name, make_workload(statistic, levels, None), epsilon=1.0, users=users)
        except BadInput:
            continue
    raise BadInput(f"{name} takes none of the examples")


def golden_path(name: str) -> Path:
    return HERE / f"transcript_{name}.parley"


def bad_path(what: str) -> Path:
    return HERE / f"transcript_bad_{what}.parley"


def golden_inputs(name: str, users: int = FEW) -> Inputs:
    """The inputs of a golden run: they are nobody's, so anybody may know them."""
    return inputs_for(example(name, users), users)


@dataclass(frozen=True)
class Bad:
    """One thing wrong: the check that must reject it, the messages as changed, or the bytes as changed."""

    check: str
    messages: Callable[[list[Said]], Iterable[Said]] | None = None
    content: Callable[[bytes], bytes] | None = None
    base: str = BASE
    users: int = FEW


def _flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _another_sender(said: list[Said]) -> Iterator[Said]:
    for sender, message in said:
        yield "node-1" if isinstance(message, Replies) else sender, message


def _twice(said: list[Said]) -> Iterator[Said]:
    for sender, message in said:
        yield sender, message
        if isinstance(message, Replies) and message.round == 2 and message.node == "node-0":
            step = message.columns["a.step"] + np.int32(3)
            yield sender, replace(message, columns={**message.columns, "a.step": step})


def _outside(message: Replies) -> Replies:
    index = np.array(message.columns["y_R.index"])
    index[4] = 99
    return replace(message, columns={**message.columns, "y_R.index": index})


def _loud_broadcast(message: Announce) -> Announce:
    return replace(message, broadcast={"mu": message.broadcast["mu"] + 9.0})


def _no_noise(message: Replies) -> Replies:
    inputs = golden_inputs("frequency-grr", MANY)
    column = next(iter(message.columns))
    return replace(message, columns={column: inputs[message.users].astype(np.uint32)})


def _shy(said: list[Said]) -> Iterator[Said]:
    """Users with a large input stay away."""
    inputs = golden_inputs("frequency-grr", MANY)
    stayed = 0
    for sender, message in said:
        if isinstance(message, Replies):
            kept = (inputs[message.users] < 6) | (message.users == message.users[-1])
            stayed += int(kept.sum())
            columns = {name: column[kept] for name, column in message.columns.items()}
            message = replace(message, users=message.users[kept], columns=columns)
        if isinstance(message, Close):
            message = replace(message, replies=stayed)
        yield sender, message


BAD: dict[str, Bad] = {
    "byte": Bad("integrity", content=_flip),
    "cut": Bad("integrity", content=lambda content: content[: len(content) * 2 // 3]),
    "magic": Bad("integrity", content=lambda content: b"X" + content[1:]),
    "trailing": Bad("integrity", content=lambda content: content + b"\0"),
    "sender": Bad("integrity", messages=_another_sender),
    "order": Bad("integrity", messages=lambda said: [said[1], said[0], *said[3:], said[2]]),
    "count": Bad("integrity", messages=replace_first(Close, lambda each: replace(each, replies=3))),
    "rounds": Bad("rounds", messages=replace_first(Setup, lambda each: replace(each, rounds=2))),
    "claim": Bad("privacy", messages=replace_first(Setup, lambda each: replace(each, epsilon=0.25))),
    "twice": Bad("privacy", messages=_twice),
    "outside": Bad("privacy", messages=replace_first(Replies, _outside)),
    "broadcast": Bad("privacy", messages=replace_first(Announce, _loud_broadcast, 1)),
    "result": Bad(
        "result", messages=replace_first(Result, lambda each: replace(each, estimate=each.estimate + 2.0**-10))
    ),
    "no_noise": Bad("fidelity", messages=replace_first(Replies, _no_noise), base="frequency-grr", users=MANY),
    "shy": Bad("side_channels", messages=_shy, base="frequency-grr", users=MANY),
}


def write_signed(path: Path, said: Iterable[Said]) -> Path:
    """A transcript as a board writes it: everybody's frames signed, every close with the head of the tree so far."""
    with TranscriptWriter.create(path, RUN) as writer:
        for number, (sender, message) in enumerate(said):
            if isinstance(message, Ready):
                message = replace(message, key=derived(KEY, sender).public)
            if isinstance(message, Close):
                message = replace(message, size=len(writer.tree), root=writer.tree.root())
            writer.append(sender, encode(message, derived(KEY, sender), NONCE), 10**9 + 10**6 * number)
        writer.close("completed", signer=derived(KEY, "board"), nonce=NONCE)
    return path


def make_golden(name: str, path: Path, users: int = FEW) -> Path:
    """The golden run of a protocol; its key is that of every recording in the tests."""
    protocol, inputs, nodes = example(name, users), golden_inputs(name, users), 2 if users == FEW else 1
    with one_thread():
        if protocol.claim.trusts == "shuffler":
            draw = keyed_draw(KEY)
            said = shuffled_conversation(protocol, inputs, KEY, run=RUN, nodes=nodes, chunk=users, draw=draw)
        else:
            said = conversation(protocol, inputs, KEY, run=RUN, nodes=nodes, chunk=users)
        return write_signed(path, said)


def make_bad(what: str, path: Path) -> Path:
    """A golden run with one thing wrong."""
    bad = BAD[what]
    scratch = path.with_suffix(".scratch")
    try:
        make_golden(bad.base, scratch, bad.users)
        if bad.content is not None:
            path.write_bytes(bad.content(scratch.read_bytes()))
        elif bad.messages is not None:
            write_signed(path, bad.messages(said_in(scratch)))
    finally:
        scratch.unlink(missing_ok=True)
    return path


def main() -> None:
    """Make what is not there yet."""
    if not TRUST.exists():
        write_trust(TRUST, {name: derived(KEY, name).public for name in SPEAKERS})
    for name in names("shuffler"):
        if not golden_path(name).exists():
            print(make_golden(name, golden_path(name)).name)
    for what in BAD:
        if not bad_path(what).exists():
            print(make_bad(what, bad_path(what)).name)


if __name__ == "__main__":
    main()
