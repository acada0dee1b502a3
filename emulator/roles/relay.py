"""A relay's part: a board to the user nodes of one host, one connection to the board. It passes on and merges.

Names are kept: the board seats every node behind a relay and records its frames as they came. What a relay saves is
connections, and repeats: a broadcast crosses the network once a host, and whoever missed it hears it again from the
relay. It is trusted with no more than the network is: a user node defends its users against a relay as it does
against a board, and replies are public anyway. Where keys are in use the board lets a relay speak for the nodes that
are listed as its own, and for nobody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from parley.emulator.errors import RemoteProtocolError
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import bundle, decode, open_envelope
from parley.emulator.wire.shapes import Shapes

MOST_BUNDLED = 2**20
REPEAT_SECONDS = 0.25
# A node gives up on a board it has not heard for long, so now and then it hears a reminder that is for others.
QUIET_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Passed:
    """What a message makes a relay do: frames for the board, sealed broadcasts for its nodes or for one of them."""

    up: tuple[bytes, ...] = ()
    down: tuple[bytes, ...] = ()
    only: str = ""


@dataclass
class RelayRole:
    """What a relay remembers: the newest broadcast of each kind, and which of its nodes have answered the last one."""

    name: str
    nodes: set[str] = field(default_factory=set)
    ending: wire.Message | None = None
    _recent: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)
    _shapes: Shapes = field(default_factory=Shapes)
    _repeated: float = float("-inf")
    _spoke: float = float("-inf")

    @property
    def over(self) -> bool:
        return self.ending is not None

    @property
    def farewell(self) -> tuple[bytes, ...]:
        return self._newest(wire.Result.kind, wire.Abort.kind)

    def hear_replies(self, frames: Sequence[bytes], senders: Sequence[str | None]) -> set[int]:
        """Hear replies of one shape at once; which of the frames these are. The others are for `hear_node`.

        They go up as they came, in their places between the others.
        """
        heard: set[int] = set()
        for alike in self._shapes.sort(frames):
            for place, node in zip(alike.places.tolist(), alike.nodes, strict=True):
                if senders[place] in (None, node):
                    heard.add(place)
                    self.nodes.add(node)
                    self._answered.add(node)
        return heard

    def hear_node(self, frame: bytes, sender: str | None, now: float) -> Passed:
        """Pass a node's frame on as it came; a node that has missed something hears it again from here."""
        message = self._shapes.decode(frame)
        if not isinstance(message, wire.Ready | wire.Replies | wire.Refusal | wire.Event | wire.Inquiry):
            raise RemoteProtocolError(f"relay {self.name}: a {message.kind}, which no user node sends")
        if sender is not None and sender != message.node:
            raise RemoteProtocolError(f"relay {self.name}: {sender} spoke in the name of {message.node:.80}")
        self.nodes.add(message.node)
        if isinstance(message, wire.Replies | wire.Refusal):
            self._answered.add(message.node)
        lacks = isinstance(message, wire.Ready) and (self.over or message.node not in self._answered)
        if not lacks or now - self._repeated < REPEAT_SECONDS:
            return Passed(up=(frame,))
        self._repeated = now
        return Passed(up=(frame,), down=self._newest("setup", wire.Announce.kind, wire.Result.kind, wire.Abort.kind))

    def hear_board(self, sealed: bytes, now: float) -> Passed:
        """Pass on what is new; what is repeated only if it is for a node of this host."""
        sequence, _, frame = open_envelope(sealed)
        message = decode(frame)
        if isinstance(message, wire.Receipt | wire.Seating):
            return Passed(down=(sealed,), only=message.node) if message.node in self.nodes else Passed()
        if not isinstance(message, wire.BROADCASTS):
            raise RemoteProtocolError(f"relay {self.name}: a {message.kind} on the feed of broadcasts")
        if isinstance(message, wire.Reminder):
            # What they said has not reached the board, and who comes back meanwhile needs the setup, too.
            self._answered.difference_update(message.missing)
            if self.nodes.isdisjoint(message.missing) and now - self._spoke < QUIET_SECONDS:
                return Passed()
            self._spoke = now
            return Passed(down=(*self._newest(wire.Announce.kind), sealed))
        if sequence <= self._recent.get(message.kind, (-1, b""))[0]:
            return Passed()
        self._spoke, self._recent[message.kind] = now, (sequence, sealed)
        if isinstance(message, wire.Announce):
            self._answered.clear()
        elif isinstance(message, wire.Result | wire.Abort):
            self.ending = message
        return Passed(down=(sealed,))

    def _newest(self, *kinds: str) -> tuple[bytes, ...]:
        return tuple(self._recent[kind][1] for kind in kinds if kind in self._recent)


def merged(frames: Sequence[bytes]) -> list[bytes]:
    """The same frames in as few messages as their size allows; a single one stays as it is."""
    parts, size = list[list[bytes]](), MOST_BUNDLED
    for frame in frames:
        if size + len(frame) > MOST_BUNDLED:
            parts.append([])
            size = 0
        parts[-1].append(frame)
        size += len(frame)
    return [part[0] if len(part) == 1 else bundle(part) for part in parts]
