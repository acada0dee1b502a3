"""A run of several boards in memory: the real roles and real records, frames signed, and nothing lost on the way."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from parley.emulator.coins import nonce_from_key
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.record.shards import FOLDER
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, BoardRole, Terms
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to
from parley.emulator.roles.shards.boards import HeadBoardRole, ShardBoardRole, board_of
from parley.emulator.roles.shards.sub_analyst import SubAnalystRole
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.state.receipts import Receipts
from tests.emulator.samples import KEY, RUN

FILE = "transcript.parley"


class Board:
    """A board's role, its record on disk, and what it shows to whom."""

    def __init__(self, role: BoardRole, path: Path, signer: Signer | None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.role, self.signer = role, signer
        self.writer = TranscriptWriter.create(path, RUN)
        self.receipts = Receipts(RUN)
        self.records: list[tuple[str, wire.Message, bytes]] = []

    def hear(self, sender: str, frame: bytes) -> list[tuple[wire.Message, bytes]]:
        """What goes on record because of a frame, with the frames."""
        message = decode(frame)
        return [self.put(*said, frame if said[1] is message else b"") for said in self.role.hear(sender, message, 0.0)]

    def put(self, sender: str, message: wire.Message, frame: bytes = b"") -> tuple[wire.Message, bytes]:
        if isinstance(message, wire.Close) and self.signer is not None:
            message = replace(message, size=len(self.writer.tree), root=self.writer.tree.root())
        frame = frame or encode(message, self.signer, self.role.nonce)
        now = 10**9 + len(self.writer.tree)
        sequence = self.writer.append(sender, frame, now)
        self.receipts.note(sequence, now, message, frame)
        self.records.append((sender, message, frame))
        if self.role.over:
            self.writer.close("completed", "", self.signer, self.role.nonce)
        return message, frame

    def receipt(self, node: str, number: int) -> wire.Receipt:
        found = self.receipts.make(node, number, self.writer.tree)
        assert found is not None
        return found


class Whole:
    """All boards of a run, their users and analysts."""

    def __init__(
        self,
        folder: Path,
        protocol: Protocol,
        inputs: Inputs,
        *,
        shards: int,
        nodes: int,
        signed: bool = True,
        sub_analyst: Callable[..., SubAnalystRole] = SubAnalystRole,
        key: bytes = KEY,
    ) -> None:
        names = [f"shard-{number}" for number in range(shards)]
        users = [f"node-{number}" for number in range(nodes)]
        every = [ANALYST_NAME, BOARD_NAME, *names, *map(board_of, names), *users]
        self.signers = {name: derived(key, name) for name in every} if signed else {}
        self.keys = {name: signer.public for name, signer in self.signers.items()}
        self.analyst = AnalystRole(protocol, RUN)
        head = HeadBoardRole(Terms(run=RUN, users=len(inputs), nodes=shards), lambda: nonce_from_key(key))
        self.head = Board(head, folder / FILE, self.signers.get(BOARD_NAME))
        self.shards: dict[str, Board] = {}
        self.subs: dict[str, SubAnalystRole] = {}
        self.cohorts: dict[str, list[CohortRole]] = {name: [] for name in names}
        for place, part in enumerate(np.array_split(np.arange(len(inputs)), nodes)):
            shard, name = names[place * shards // nodes], users[place]
            agreed = consent_to(protocol, RUN)
            if signed:
                keys = {"analyst": self.keys[ANALYST_NAME], "head": self.keys[BOARD_NAME]}
                agreed = replace(agreed, board=self.keys[board_of(shard)], shard=shard, **keys)
            self.cohorts[shard].append(
                CohortRole(
                    node=name,
                    first=int(part[0]),
                    inputs=inputs[part[0] : part[-1] + 1],
                    key=key,
                    consent=agreed,
                    build=lambda name, parameters: protocol,
                    signer=self.signers.get(name),
                )
            )
        for name in names:
            terms = Terms(run=RUN, users=len(inputs), nodes=len(self.cohorts[name]))
            path = folder / FOLDER / name / FILE
            self.shards[name] = Board(ShardBoardRole(terms, name), path, self.signers.get(board_of(name)))
            self.subs[name] = sub_analyst(
                node=name,
                run=RUN,
                pid=1,
                build=lambda name, parameters: protocol,
                signer=self.signers.get(name),
                keys=self.keys or None,
            )
        self._waiting: deque[tuple[Board, str, bytes]] = deque()
        self._sent: set[tuple[str, bytes]] = set()

    def run(self) -> wire.Result:
        """To the end; what the head analyst says last."""
        for name, cohorts in self.cohorts.items():
            for cohort in cohorts:
                self._waiting.append((self.shards[name], cohort.node, cohort.frame(cohort.ready(1))))
        while self._waiting:
            board, sender, frame = self._waiting.popleft()
            for message, said in board.hear(sender, frame):
                if board is self.head:
                    self._on_head(message, said)
                else:
                    self._on_shard(next(name for name, each in self.shards.items() if each is board), message, said)
            self._pass_on()
        ending = self.head.records[-1][1]
        assert isinstance(ending, wire.Result)
        return ending

    def _on_head(self, message: wire.Message, frame: bytes) -> None:
        for said in self.analyst.hear(message):
            signer = self.signers.get(ANALYST_NAME)
            self._waiting.append((self.head, ANALYST_NAME, encode(said, signer, self.analyst.nonce)))
        for name, sub in self.subs.items():
            sub.told(message, frame)
            if isinstance(message, wire.Close) and self.keys:
                receipt = self.head.receipt(name, message.round)
                sub.told(receipt, encode(receipt))

    def _on_shard(self, name: str, message: wire.Message, frame: bytes) -> None:
        self.subs[name].hear(message, frame)
        board = self.shards[name]
        for cohort in self.cohorts[name]:
            if isinstance(message, wire.BROADCASTS):
                self._voice(name, cohort, message)
            shown = board.role.shows(message) if self.keys else None
            if shown == 0:
                seating = board.role.seating(cohort.node)
                assert seating is not None
                self._voice(name, cohort, seating)
            elif shown:
                self._voice(name, cohort, board.receipt(cohort.node, shown))

    def _voice(self, name: str, cohort: CohortRole, message: wire.Message) -> None:
        for said in cohort.hear(message):
            if isinstance(said, wire.Message) and not isinstance(said, wire.Inquiry):
                self._waiting.append((self.shards[name], cohort.node, cohort.frame(said)))

    def _pass_on(self) -> None:
        for name, sub in self.subs.items():
            up = [each for each in (sub.shard, *sub.up) if each and not isinstance(decode(each), wire.Inquiry)]
            down = [(self.shards[name], each) for each in sub.down]
            for board, frame in [*((self.head, each) for each in up), *down]:
                message = decode(frame)
                if (name, frame) not in self._sent:
                    self._sent.add((name, frame))
                    sender = message.node if isinstance(message, wire.Shard | wire.Tally | wire.Tie) else ANALYST_NAME
                    self._waiting.append((board, sender, frame))
