"""What the board takes together: replies of one shape that came in one go, in the order in which they came.

Who does not fit goes the careful way, one frame at a time. A frame that is not a message changes nothing for others, so
it does not cut their stretch in two; any other frame does, because what it says may decide about what comes after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.roles.board import BoardRole
from parley.emulator.roles.seats import Chunk
from parley.emulator.transport.ports import Received
from parley.emulator.wire.codec import decode, is_bundle, unbundle
from parley.emulator.wire.shapes import FEWEST, Alike, Shapes


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A stretch of replies that the role has heard.

    `taken`: frames of one shape that are to be recorded, with what was read of them. `dropped`: who sent what is
    dropped, and why. `before` and `after`: frames that go the careful way, before and after the round may be closed.
    """

    taken: list[tuple[Alike, list[Chunk]]]
    dropped: list[tuple[str, str]]
    before: list[Received]
    after: list[Received]


def all_apart(batch: Sequence[Received]) -> list[Received]:
    """What came, bundles of relays taken apart."""
    return [each for received in batch for each in (apart(received) if is_bundle(received.frame) else (received,))]


def apart(received: Received) -> list[Received]:
    """The frames a relay sent in one; what cannot be taken apart is left for the judge to refuse."""
    try:
        return [Received(frame, received.sender) for frame in unbundle(received.frame)]
    except RemoteProtocolError:
        return [received]


def stretches(received: Sequence[Received], shapes: Shapes) -> Iterator[Received | list[Alike]]:
    """What came, in order: frames to be taken one by one, and stretches of replies to be taken together."""
    groups = shapes.sort([each.frame for each in received]) if len(received) >= FEWEST else []
    if not groups:
        yield from received
        return
    alone = np.ones(len(received), np.bool_)
    for group in groups:
        alone[group.places] = False
    start = 0
    for place in (*np.flatnonzero(alone).tolist(), len(received)):
        if place > start and place < len(received) and not _is_message(received[place].frame):
            yield received[place]
            continue
        parts = [group.take((group.places >= start) & (group.places < place)) for group in groups if place > start]
        if found := [part for part in parts if len(part)]:
            yield found
        if place < len(received):
            yield received[place]
        start = place + 1


def _is_message(frame: bytes) -> bool:
    try:
        decode(frame)
    except RemoteProtocolError:
        return False
    return True


def judge(
    role: BoardRole, stretch: Sequence[Alike], received: Sequence[Received], relays: Mapping[str, str], now: float
) -> Judged:
    """Let the role hear a stretch, each frame as it would by itself and in the same order."""
    careful: list[int] = []
    heard: list[tuple[int, int, int, Chunk]] = []
    for which, alike in enumerate(stretch):
        places = alike.places.tolist()
        if not role.asks_for(alike.shape):
            careful += places
            continue
        for row, (place, chunk) in enumerate(zip(places, Chunk.read_all(alike), strict=True)):
            sender = received[place].sender
            if chunk.node in role.seats and (sender is None or sender in (chunk.node, relays.get(chunk.node))):
                heard.append((place, which, row, chunk))
            else:
                careful.append(place)
    if len(stretch) > 1:
        heard.sort()
    judged = role.hear_all((chunk for *_, chunk in heard), now)
    rows: list[list[int]] = [[] for _ in stretch]
    chunks: list[list[Chunk]] = [[] for _ in stretch]
    dropped: list[tuple[str, str]] = []
    for (_, which, row, chunk), verdict in zip(heard, judged, strict=False):
        if verdict is True:
            rows[which].append(row)
            chunks[which].append(chunk)
        elif isinstance(verdict, str):
            dropped.append((chunk.node, verdict))
    # Once the round is complete it is closed, and what comes after that is too late.
    last = heard[len(judged) - 1][0] if judged and role.is_complete else len(received)
    late = sorted(careful + [place for place, *_ in heard[len(judged) :]])
    return Judged(
        taken=[(alike.take(rows[which]), chunks[which]) for which, alike in enumerate(stretch) if rows[which]],
        dropped=dropped,
        before=[received[place] for place in late if place < last],
        after=[received[place] for place in late if place > last],
    )
