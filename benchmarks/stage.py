"""A run whose processes benchmarks/treachery.py starts one by one, before a board that writes down what it is sent."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

import numpy as np

from benchmarks.treacherous_board import HONEST, BoardOrders, tapped
from parley.emulator.coins import question_of, recorded_coins, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import decode, said_by
from parley.emulator.wire.messages import Announce, Message, Replies, Result, Setup
from parley.emulator.wire.security import read_trust
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import make_signers, write_states
from parley.launch.processes.command_lines import CommandLines
from parley.launch.results.folder import RunFolder
from parley.nodes.analyst import write_plan
from parley.protocols.registry import build

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0
LOOK_SECONDS = 0.02
# Bytes of coins that are compared: two users, or two questions, never agree on so many by chance.
COINS = 32
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
Kind = TypeVar("Kind", bound=Message)


class Hung(Exception):
    """Something that must happen did not within PATIENCE seconds."""


@dataclass(frozen=True, kw_only=True)
class Lie:
    """What the board does that it should not, to whom and when."""

    kind: str = HONEST
    victim: str = ""
    round: int = 0


class Stage:
    """Folder, keys, states and processes of one run; nobody outlives it."""

    def __init__(
        self,
        layout: Layout,
        path: Path,
        run: str,
        *,
        lie: Lie | None = None,
        nonce: bytes = b"",
        lets_in: Literal["listed", "anybody"] = "listed",
    ) -> None:
        self.layout, self.lie = layout, lie or Lie()
        self.folder = RunFolder(run=run, path=path, default=False)
        self.command_lines = CommandLines(layout, self.folder, None)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.nonce, self._lets_in = nonce or layout.nonce, lets_in
        self.folder.create()
        write_plan(self.folder.plan, layout.protocol, layout.meaning)
        Witness(run=run, key=layout.key, inputs=layout.inputs).save(self.folder.witness)
        if layout.conditions is not None:
            self.folder.conditions.write_bytes(layout.conditions.read_bytes())
        write_states(layout, self.folder, make_signers(layout), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()

    @property
    def tap(self) -> Path:
        return self.folder.path / "tap"

    @cached_property
    def keys(self) -> dict[str, bytes]:
        """Whose signatures count."""
        return read_trust(self.folder.trust)

    def cohort(self, node: str) -> tuple[int, int]:
        """First user and number of users of a node."""
        return next((first, count) for name, first, count in self.layout.cohorts() if name == node)

    def begin(self, *, without: Iterable[str] = ()) -> None:
        """Board, analyst and user nodes."""
        self.start_board()
        self.start_analyst()
        for name in self.layout.nodes:
            if name not in without:
                self.start_node(name)

    def start_board(self) -> None:
        """The board, and wait until it can be found."""
        terms, folder = self.layout.terms(self.folder.run), self.folder
        orders = BoardOrders(
            run=terms.run,
            users=terms.users,
            nodes=terms.nodes,
            deadline=terms.deadline,
            quorum=terms.quorum,
            nonce=self.nonce.hex(),
            transcript=str(folder.transcript),
            addresses=str(folder.addresses),
            tap=str(self.tap),
            signing=str(folder.signing(BOARD_NAME)),
            trust=str(folder.trust) if self._lets_in == "listed" else "",
            analyst=str(folder.signing(ANALYST_NAME)),
            lie=self.lie.kind,
            victim=self.lie.victim,
            round=self.lie.round,
        )
        orders.save(folder.path / "board.json")
        self._start(BOARD_NAME, "benchmarks.treacherous_board", [str(folder.path / "board.json")])
        self.until(folder.addresses.exists)

    def start_analyst(self) -> None:
        self._start(ANALYST_NAME, "parley.nodes.analyst", self.command_lines.analyst().arguments)

    def start_node(
        self,
        name: str,
        *,
        process: str = "",
        state: Path | None = None,
        at: Path | None = None,
        room: int | None = None,
    ) -> None:
        """A user node: under another name of its process, with another state, at another board, on a full disk."""
        command_line = self.command_lines.again(name)
        words = list(command_line.arguments)
        for option, value in (("--state", state), ("--addresses", at)):
            if value is not None:
                words[words.index(option) + 1] = str(value)
        if at is not None and "--conditions" in words:
            # Whether somebody answers a stranger is not to depend on chance.
            place = words.index("--conditions")
            del words[place : place + 2]
        self._start(process or name, "parley.nodes.user", words, room)

    def _start(self, name: str, module: str, words: Iterable[str], room: int | None = None) -> None:
        def limit() -> None:
            if room is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        before = self.processes.get(name)
        if before is not None and before.stderr is not None:
            before.stderr.close()
        # A log is a file too: who has no room for its state must still be able to say so.
        said = subprocess.PIPE if room is not None else self.folder.log(name).open("ab")
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, **QUIET},
            preexec_fn=limit,
        )
        if not isinstance(said, int):
            said.close()

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def wait(self, name: str) -> int:
        """The exit code of a process that must end."""
        try:
            return self.processes[name].wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Hung(f"{name} did not end") from None

    def said(self, name: str) -> str:
        """What a process has complained about: its last log."""
        pipe = self.processes[name].stderr
        if pipe is not None:
            return pipe.read().decode()
        return self.folder.log(name).read_text()

    def until(self, done: Callable[[], object], seconds: float = PATIENCE) -> None:
        """Look again and again; Hung where it takes too long or the board has gone astray."""
        end = time.monotonic() + seconds
        while not done():
            board = self.processes.get(BOARD_NAME)
            if time.monotonic() > end or (board is not None and board.poll() not in (None, 0, 3)):
                raise Hung(f"waited for {done}")
            time.sleep(LOOK_SECONDS)

    def heard(self, kind: type[Kind], node: str) -> list[Kind]:
        """What a user node has said of a kind, as the board received it."""
        found = []
        for frame in tapped(self.tap):
            with suppress(RemoteProtocolError):
                message = decode(frame)
                if isinstance(message, kind) and getattr(message, "node", "") == node:
                    found.append(message)
        return found

    def on_record(self) -> list[Message]:
        return [record.message for record in TranscriptReader(self.folder.transcript)]

    def estimates(self) -> list[float]:
        return [message.estimate for message in self.on_record() if isinstance(message, Result)]

    def estimates_in_memory(self) -> list[float]:
        said = conversation(self.layout.protocol, self.layout.inputs, self.layout.key)
        return [message.estimate for _, message in said if isinstance(message, Result)]


@dataclass(frozen=True, kw_only=True)
class Spoken:
    """A reply as it was on the wire, before which board, and whose key signed it."""

    board: Path
    frame: bytes
    message: Replies
    author: bytes


@dataclass
class Overheard:
    """Everything that boards were sent: what was asked, and every reply. `coin_keys`: by signing key."""

    coin_keys: dict[bytes, bytes] = field(default_factory=dict)
    asked: dict[bytes, tuple[Setup, Announce]] = field(default_factory=dict)
    replies: list[Spoken] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)

    def take(self, stage: Stage, others: Mapping[bytes, bytes] | None = None) -> list[Spoken]:
        """Hear the tap of a board; `others`: coin keys of states made later. What it was sent in replies."""
        known = {stage.keys[name]: stage.layout.key for name in stage.layout.nodes} | dict(others or {})
        self.coin_keys |= known
        setups, announces, found = list[Setup](), list[Announce](), list[Spoken]()
        for frame in tapped(stage.tap):
            try:
                message = decode(frame)
            except RemoteProtocolError:
                continue
            if isinstance(message, Setup):
                setups.append(message)
            elif isinstance(message, Announce):
                announces.append(message)
            elif isinstance(message, Replies):
                author = next((key for key in known if said_by(key, frame, message, stage.nonce)), b"")
                found.append(Spoken(board=stage.tap, frame=frame, message=message, author=author))
        self.asked |= {question_of(terms_of(setup), each): (setup, each) for setup in setups for each in announces}
        self.replies += found
        return found

    def second_draws(self) -> int:
        """Replies of a state in a round with other bytes than its first. A copy speaks before another board."""
        first: dict[tuple[Path, bytes, str, int, int], bytes] = {}
        again = 0
        for each in self.replies:
            said = each.message
            kept = first.setdefault((each.board, each.author, said.node, said.round, said.chunk), each.frame)
            again += kept != each.frame
        return again

    def questions_answered(self, node: str, number: int) -> int:
        """To how many questions a node has replied in a round."""
        said = [each.message for each in self.replies if each.message.node == node and each.message.round == number]
        return len({each.question for each in said})

    def shared_coins(self, stage: Stage) -> int:
        """Users who flipped the same coins for two questions: what tells a law from another must not repeat."""
        spoken = {(each.author, each.message.node, each.message.question) for each in self.replies}
        flips: dict[tuple[bytes, int], set[bytes]] = {}
        shared = 0
        for author, node, question in spoken:
            if question not in self.asked or author not in self.coin_keys:
                continue
            flip = recorded_coins(*self.asked[question], self.coin_keys[author])
            first, count = stage.cohort(node)
            for user, row in enumerate(flip(first, count, COINS), first):
                seen = flips.setdefault((author, user), set())
                shared += row.tobytes() in seen
                seen.add(row.tobytes())
        return shared

    def wrong_draws(self, stage: Stage) -> int:
        """Replies that are not what the inputs and the coins of exactly this question give."""
        return sum(not self._is_right(stage, each) for each in {each.frame: each for each in self.replies}.values())

    def _is_right(self, stage: Stage, spoken: Spoken) -> bool:
        replies = spoken.message
        if replies.question not in self.asked or spoken.author not in self.coin_keys:
            return False
        setup, announce = self.asked[replies.question]
        step = build(setup.protocol, setup.parameters).rounds[replies.round - 1]
        first, count = stage.cohort(replies.node)
        flip = recorded_coins(setup, announce, self.coin_keys[spoken.author])
        users, columns = step.draw(announce.broadcast, stage.layout.inputs[first : first + count], first, flip)
        same = set(columns) == set(replies.columns) and np.array_equal(users, replies.users)
        return (
            replies.chunks == 1
            and same
            and all(np.array_equal(columns[name], replies.columns[name]) for name in columns)
        )
