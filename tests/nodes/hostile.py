"""A lying analyst as a process: it owns the board as well, so nothing stands between its lies and a user node.

`python -m tests.nodes.hostile ATTACK FOLDER` binds the board's channels, writes their addresses, waits for one
node, plays the attack, and writes everything that was said into FOLDER/transcript.parley.
"""

import asyncio
import dataclasses
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.roles.consent import domain_of
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BROADCAST
from parley.emulator.transport.zmq.ports import open_board
from parley.emulator.wire.codec import decode, envelope
from parley.emulator.wire.codec import encode as unsigned
from parley.emulator.wire.messages import Abort, Announce, Message, Ready, Refusal, Replies, Result, Roster, Setup
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.common import write_addresses
from parley.protocols.registry import design
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kernel import Kernel

RUN = "hostile"
USERS = 40
EPSILON = 1.0
KEY = key_from_seed(1)
NONCE = nonce_from_key(KEY)
# Whose words the victim of a signed attack asks for; and somebody else's.
ANALYST, BOARD, STRANGER = (derived(KEY, name) for name in ("analyst", "board", "stranger"))
# The factor of Gini diversity has one row less than there are categories.
ZERO = [0.0, 0.0]
# <L 1_x, mu> is mu[0] / sqrt(2) at most, and |W| is 2/3: the largest mu[0] that users answer.
EDGE = 2 / 3 * math.sqrt(2)
Attack = Callable[[], Iterator[Message]]


def honest(run: str = RUN, epsilon: float = EPSILON, levels: int = 3) -> Setup:
    spoken = design("three-round", GiniDiversity(levels=levels), epsilon=epsilon, users=USERS)
    claim = spoken.claim
    return Setup(
        run=run,
        protocol=spoken.name,
        parameters=spoken.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        domain=domain_of(levels),
        nonce=NONCE,
    )


def announce(number: int, run: str = RUN, **arrays: list[float]) -> Announce:
    return Announce(
        run=run, round=number, broadcast={name: np.array(each) for name, each in arrays.items()}, speakers=USERS
    )


def oversized_mu() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, mu=[1e6, 0.0]))


def mu_outside_the_declared_set() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, mu=[1.0001 * EDGE, 0.0]))


def mu_of_another_shape() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, mu=[*ZERO, 0.0]))


def another_matrix_than_in_setup() -> Iterator[Message]:
    """A second setup with a matrix that would tell inputs apart better."""
    steep = design("three-round", Kernel(np.diag([100.0, 0.0, 0.0])), epsilon=EPSILON, users=USERS)
    yield from (honest(), announce(1), dataclasses.replace(honest(), parameters=steep.parameters()))


def a_changed_broadcast_for_the_same_round() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, mu=[0.1, 0.0]), announce(2, mu=[0.2, 0.0]))


def an_extra_round() -> Iterator[Message]:
    yield from (*the_whole_conversation(), announce(4))


def rounds_out_of_order() -> Iterator[Message]:
    yield from (honest(), announce(2, mu=ZERO), announce(1))


def a_round_left_out() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(3, mu=ZERO, Y=ZERO))


def another_run_than_agreed() -> Iterator[Message]:
    yield from (honest(run="elsewhere"), announce(1, run="elsewhere"))


def fewer_values_than_agreed() -> Iterator[Message]:
    """A node that would stop at an input outside the setup's domain would tell who has one."""
    yield from (honest(levels=2), announce(1))


def fewer_values_under_the_agreed_domain() -> Iterator[Message]:
    yield from (dataclasses.replace(honest(levels=2), domain=domain_of(3)), announce(1))


def no_nonce() -> Iterator[Message]:
    yield from (dataclasses.replace(honest(), nonce=b""), announce(1))


def the_same_run_again_with_another_nonce() -> Iterator[Message]:
    """Fresh coins for the same question: the average of many replies is the input."""
    yield from (honest(), announce(1), dataclasses.replace(honest(), nonce=bytes(16)), announce(1))


def a_result_before_the_setup() -> Iterator[Message]:
    """A node that would leave here could be made to come back without its memory."""
    yield Result(run=RUN, estimate=0.0, predicted_rmse=1.0, low=0.0, high=1.0, replied=0)
    yield from (honest(), announce(1))


def the_whole_conversation() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, mu=ZERO), announce(3, mu=ZERO, Y=ZERO))


def a_replayed_old_run() -> Iterator[Message]:
    yield from (honest(), announce(1), announce(2, run="older", mu=ZERO))


def epsilon_above_the_cap() -> Iterator[Message]:
    yield from (honest(epsilon=8.0), announce(1))


def a_claim_that_lies() -> Iterator[Message]:
    """Parameters of eight times the epsilon that the claim admits to."""
    yield from (dataclasses.replace(honest(epsilon=8.0), epsilon=EPSILON), announce(1))


ATTACKS: dict[str, Attack] = {
    attack.__name__: attack
    for attack in (
        oversized_mu,
        mu_outside_the_declared_set,
        mu_of_another_shape,
        another_matrix_than_in_setup,
        a_changed_broadcast_for_the_same_round,
        an_extra_round,
        rounds_out_of_order,
        a_round_left_out,
        another_run_than_agreed,
        fewer_values_than_agreed,
        fewer_values_under_the_agreed_domain,
        no_nonce,
        the_same_run_again_with_another_nonce,
        a_result_before_the_setup,
        a_replayed_old_run,
        epsilon_above_the_cap,
        a_claim_that_lies,
    )
}


SIGNED: dict[str, Signer | None] = {"nobody_signs": None, "a_stranger_signs": STRANGER, "the_board_signs": BOARD}
"""Whose signature the analyst's words bear, to users who want the analyst's; what is said is honest."""


def encode(message: Message, signer: Signer | None = None) -> bytes:
    """With the signature of whoever it is said to be, or without."""
    return unsigned(message, signer, NONCE)


def spoiled(frame: bytes) -> bytes:
    """A frame whose floats are not finite: the codec of an honest analyst would not write it."""
    good = encode(announce(2, mu=[1.25, 0.0]))
    assert frame == good
    body = frame[:-4].replace(np.float64(1.25).tobytes(), np.float64("nan").tobytes())
    return body + zlib.crc32(body).to_bytes(4, "little")


async def main(attack: str, folder: Path) -> None:
    port = open_board(BoardAddresses.on())
    writer = TranscriptWriter.create(folder / "transcript.parley", RUN)
    write_addresses(folder / "addresses.json", port.addresses)

    def note(sender: str, frame: bytes) -> None:
        sequence = writer.append(sender, frame, time.time_ns())
        if sender in ("analyst", "board"):
            port.publish(BROADCAST, envelope(sequence, sender, frame))

    async def listen(seconds: float, until: tuple[type[Message], ...]) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for received in await port.receive(0.1):
                try:
                    message = decode(received.frame)
                except RemoteProtocolError:
                    continue
                if isinstance(message, Ready) and seated:
                    continue
                if isinstance(message, Ready | Replies | Refusal):
                    note(message.node, received.frame)
                if isinstance(message, until):
                    return

    seated = False
    await listen(60.0, (Ready,))
    seated = True
    while port.subscribers < 1:
        await asyncio.sleep(0.01)
    note("board", encode(Roster(run=RUN, nodes=1, users=USERS, nonce=NONCE), BOARD))
    if attack == "not_finite":
        said = [encode(honest()), encode(announce(1)), spoiled(encode(announce(2, mu=[1.25, 0.0])))]
    elif attack in SIGNED:
        said = [encode(each, SIGNED[attack]) for each in the_whole_conversation()]
    else:
        said = [encode(each) for each in ATTACKS[attack]()]
    for frame in said:
        note("analyst", frame)
        await listen(1.5, (Replies, Refusal))
    note("board", encode(Abort(run=RUN, outcome="failed", reason="the attack is over", nonce=NONCE), BOARD))
    writer.close("failed", "the attack is over")
    await asyncio.sleep(0.5)
    port.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
