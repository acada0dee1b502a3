"""A whole run through a shuffler in memory: the same roles as between processes, without clock or loss."""

from collections import deque

from parley.emulator.coins import nonce_from_key
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME, BoardRole, Terms
from parley.emulator.roles.mixing import Draw, system_draw
from parley.emulator.roles.replies import CHUNK
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Down, Said, ShufflerRole, Up
from parley.emulator.simulate import Words, make_cohorts, result_of, voice
from parley.emulator.wire.messages import BROADCASTS, Message, Result

MOST_SILENCES = 100


class ShuffledRun:
    """Board, analyst, shuffler and cohorts, and the words that are under way."""

    def __init__(self, protocol: Protocol, inputs: Inputs, key: bytes, run: str, nodes: int, chunk: int, draw: Draw):
        self.board = BoardRole(Terms(run=run, users=len(inputs), nodes=1), lambda: nonce_from_key(key))
        self.shuffler = ShufflerRole(Terms(run=run, users=len(inputs), nodes=nodes), draws=lambda number: draw)
        self.analyst = AnalystRole(protocol, run)
        self.cohorts = make_cohorts(protocol, inputs, key, run, nodes, chunk)
        self.to_shuffler: deque[Words] = deque()
        self.to_board: deque[tuple[str, Message]] = deque()

    def play(self) -> Words:
        """Every message on record, in order, with its sender."""
        for cohort in self.cohorts:
            self.to_shuffler.append(iter([(cohort.node, cohort.ready(0))]))
        now, silences = 0.0, 0
        while not self.board.over and silences < MOST_SILENCES:
            if self.to_board:
                yield from self._record(self.board.hear(*self.to_board.popleft(), now=now), now)
            elif self.to_shuffler:
                self._gather(now)
            else:
                # Nobody speaks: time passes until the board asks for what it misses.
                now, silences = now + 1.0, silences + 1
                yield from self._record(self.board.tick(now), now)

    def _record(self, said: list[tuple[str, Message]], now: float) -> Words:
        for sender, message in said:
            yield sender, message
            self.to_board.extend((ANALYST_NAME, word) for word in self.analyst.hear(message))
            if isinstance(message, BROADCASTS):
                self._spread(self.shuffler.hear(message, now))

    def _gather(self, now: float) -> None:
        spoken = next(self.to_shuffler[0], None)
        if spoken is None:
            self.to_shuffler.popleft()
            return
        self._spread(self.shuffler.hear(spoken[1], now))

    def _spread(self, said: Said) -> None:
        for each in said:
            if isinstance(each, Up):
                self.to_board.append((SHUFFLER_NAME, each.message))
            elif isinstance(each, Down):
                self.to_shuffler.extend(voice(cohort, each.message) for cohort in self.cohorts)


def shuffled_conversation(
    protocol: Protocol,
    inputs: Inputs,
    key: bytes,
    *,
    run: str = "simulated",
    nodes: int = 1,
    chunk: int = CHUNK,
    draw: Draw = system_draw,
) -> Words:
    """Every message of a run through a shuffler, in the order of the record."""
    return ShuffledRun(protocol, inputs, key, run, nodes, chunk, draw).play()


def simulate_shuffled(
    protocol: Protocol, inputs: Inputs, key: bytes, *, nodes: int = 1, chunk: int = CHUNK, draw: Draw = system_draw
) -> Result:
    """The result of such a run; the conversation itself is forgotten as it goes."""
    return result_of(shuffled_conversation(protocol, inputs, key, nodes=nodes, chunk=chunk, draw=draw))
