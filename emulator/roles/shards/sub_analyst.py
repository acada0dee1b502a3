"""The sub-analyst of a shard: an analyst to its own board, and to the head board the one who answers for the shard.

It asks nothing of its own. It hands what the head analyst says to its board as it came, signature and all, adds up
what its users answer, and sends the sums. What it says is a function of its board's record and of what the head board
has said, so it can be killed and started again.
"""

from collections import Counter

import numpy as np

from parley.emulator.coins import question_of, terms_of
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Builder, check_arrays
from parley.emulator.record.user_sets import UserSet
from parley.emulator.roles.analyst import AnalystRole, note_silent
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.shards.ties import check_tie
from parley.emulator.round import Tally
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode, said_by
from parley.emulator.wire.shapes import Alike
from parley.emulator.wire.signatures import Keys, Signer


class Sums(AnalystRole):
    """The half of an analyst that adds up replies."""

    def ask(self, announce: wire.Announce) -> None:
        """A round begins. What no user would answer cannot be added up either, and is refused."""
        number, rounds = announce.round, self.protocol.rounds
        if number != self.round + 1 or number > len(rounds):
            raise RemoteProtocolError(f"round {number} of {len(rounds)} is asked after round {self.round}")
        check_arrays(f"broadcast of round {number}", announce.broadcast, rounds[number - 1].broadcast)
        rounds[number - 1].check_broadcast(announce.broadcast)
        self.rejections = Counter()
        self._open(announce.broadcast)

    def take(self, replies: wire.Replies) -> None:
        self._gather(replies.round, replies.users, replies.columns, [replies.node])

    def take_all(self, replies: Alike) -> None:
        """Replies of one shape."""
        self._gather(replies.shape.round, replies.users, replies.columns, replies.nodes)

    @property
    def tally(self) -> Tally:
        return self._heard[-1][1]


class SubAnalystRole:
    """Hears its own board's record (`hear`) and the head board (`told`); what it says is `down` and `up`."""

    def __init__(
        self,
        *,
        node: str,
        run: str,
        pid: int,
        build: Builder,
        signer: Signer | None = None,
        keys: Keys | None = None,
    ) -> None:
        """`keys`: those of the head analyst and the head board. Without them nobody signs, and there are no ties."""
        self.node, self.run, self.signer = node, run, signer
        self._pid, self._build, self._keys = pid, build, keys
        self._users, self._roster = UserSet(), b""
        self._setup: wire.Setup | None = None
        self._sums: Sums | None = None
        self._terms = self._question = b""
        self._hosted: dict[str, int] = {}
        self._silent: Counter[tuple[int, str]] = Counter()
        self.round, self._tied = 0, 0
        self._is_open = False
        self.answer: wire.Tally | None = None
        self._answer_frame = b""
        self.ending: wire.Result | wire.Abort | None = None
        # What the head board has said last, as it came.
        self._said: dict[type[wire.Message], tuple[wire.Message, bytes]] = {}
        self._tie: wire.Tie | None = None

    @property
    def nonce(self) -> bytes:
        return b"" if self._setup is None else self._setup.nonce

    def hear(self, message: wire.Message, frame: bytes) -> None:
        """Take in the next record of its own board."""
        if isinstance(message, wire.Ready):
            self._users.add_range(message.first, message.first + message.users)
            self._hosted[message.node] = message.users
        elif isinstance(message, wire.Roster):
            self._roster = frame
        elif isinstance(message, wire.Setup):
            self._setup, self._terms = message, terms_of(message)
            self._sums = Sums(self._build(message.protocol, message.parameters), self.run, message.domain)
            self._said = {kind: each for kind, each in self._said.items() if self._is_authentic(*each)}
        elif isinstance(message, wire.Announce):
            self._adding(is_open=False).ask(message)
            self.round, self._is_open, self.answer = message.round, True, None
            self._question = question_of(self._terms, message)
        elif isinstance(message, wire.Replies):
            self._adding().take(message)
        elif isinstance(message, wire.Event):
            most = self._hosted.get(message.node, 0)
            note_silent(self._silent, message.round, message.node, wire.silent_users(message), most)
        elif isinstance(message, wire.Close):
            self._close(frame)
        elif isinstance(message, wire.Tie):
            self._tied = message.round
        elif isinstance(message, wire.Result | wire.Abort):
            self.ending = message

    def hear_all(self, replies: Alike) -> None:
        """Take in recorded replies of one shape."""
        self._adding().take_all(replies)

    def _adding(self, *, is_open: bool = True) -> Sums:
        """What replies are added to. A board's record may hold anything, also replies to nothing."""
        if self._sums is None or self._is_open != is_open:
            raise RemoteProtocolError(f"{self.node}: the record of its board is out of order after round {self.round}")
        return self._sums

    def _close(self, frame: bytes) -> None:
        sums = self._adding()
        self._is_open = False
        self.answer = wire.Tally(
            run=self.run,
            round=self.round,
            node=self.node,
            replies=sums.tally.replies,
            # A single number is an array on the wire.
            sums={name: np.asarray(total) for name, total in sums.tally.sums.items()},
            rejected=dict(sums.rejections),
            silent=sum(silent for (number, _), silent in self._silent.items() if number == self.round),
            close=frame,
            question=self._question,
        )
        self._answer_frame = encode(self.answer, self.signer, self.nonce)

    def told(self, message: wire.Message, frame: bytes) -> None:
        """Take in what the head board has published. What its author did not sign is refused."""
        if getattr(message, "run", self.run) != self.run:
            raise RemoteProtocolError(f"{self.node}: a {message.kind} of another run")
        if isinstance(message, wire.Receipt):
            self._receive(message, frame)
        elif isinstance(message, wire.Setup | wire.Announce | wire.Result | wire.Abort):
            known = self._said.get(type(message))
            if known is not None and known[1] == frame:
                return
            if not self._is_authentic(message, frame):
                raise RemoteProtocolError(f"{self.node}: a {message.kind} that its author did not sign")
            self._said[type(message)] = message, frame

    def _is_authentic(self, message: wire.Message, frame: bytes) -> bool:
        if self._keys is None:
            return True
        setup = self._said.get(wire.Setup)
        said = setup[0].nonce if setup is not None and isinstance(setup[0], wire.Setup) else b""
        # Once its board has recorded a setup, no other counts.
        nonce = self.nonce or said
        authors = (ANALYST_NAME, BOARD_NAME) if isinstance(message, wire.Abort) else (ANALYST_NAME,)
        return any(said_by(self._keys[author], frame, message, nonce) for author in authors)

    def _receive(self, receipt: wire.Receipt, frame: bytes) -> None:
        """The head board shows that the shard's answer is on record, or that it was declared missing."""
        if self._keys is None or receipt.round != self.round or self._is_open or self.answer is None:
            return
        tie = wire.Tie(run=self.run, round=self.round, node=self.node, tally=self._answer_frame, receipt=frame)
        check_tie(tie, self._keys[BOARD_NAME], self.nonce)
        self._tie = tie

    @property
    def waits_for_receipt(self) -> bool:
        """Whether it has answered and does not know yet whether that is on record."""
        return self._keys is not None and self.answer is not None and self._tied < self.round and not self._tie_frame

    @property
    def _tie_frame(self) -> bytes:
        if self._tie is None or self._tie.round != self.round:
            return b""
        return encode(self._tie, self.signer, self.nonce)

    @property
    def down(self) -> list[bytes]:
        """The frame that its own board is to record next, if it is known."""
        said = {kind: frame for kind, (_, frame) in self._said.items()}
        if self.ending is not None:
            return []
        if wire.Abort in said:
            return [said[wire.Abort]]
        if not self._roster or self._is_open:
            return []
        if self._setup is None:
            return [said[wire.Setup]] if wire.Setup in said else []
        if self.answer is not None and self._keys is not None and self._tied < self.round:
            return [self._tie_frame] if self._tie_frame else []
        announce = self._said.get(wire.Announce)
        if announce is not None and getattr(announce[0], "round", 0) == self.round + 1:
            return [announce[1]]
        return [said[wire.Result]] if wire.Result in said else []

    @property
    def shard(self) -> bytes:
        """How it takes its seat, or says that it is still there; empty until its board's roster is closed."""
        if not self._roster:
            return b""
        key = b"" if self.signer is None else self.signer.public
        shard = wire.Shard(
            run=self.run, node=self.node, stretches=self._users.runs, pid=self._pid, roster=self._roster, key=key
        )
        return encode(shard, self.signer)

    @property
    def up(self) -> list[bytes]:
        """What the head board should hear now: the answer, and a question for its receipt; or why there is none."""
        if isinstance(self.ending, wire.Abort) and wire.Abort not in self._said:
            reason = f"its board ended the run: {self.ending.reason}"[:500]
            refusal = wire.Refusal(run=self.run, round=0, node=self.node, reason=reason)
            return [encode(refusal, self.signer, self.nonce)]
        announce = self._said.get(wire.Announce)
        said = [self._answer_frame] if self.answer is not None and self._is_asked(announce) else []
        if self.waits_for_receipt:
            said.append(encode(wire.Inquiry(run=self.run, round=self.round, node=self.node)))
        return said

    def _is_asked(self, announce: tuple[wire.Message, bytes] | None) -> bool:
        """Whether the head board's round is still the one that was answered, as far as is known."""
        later = announce is not None and getattr(announce[0], "round", 0) > self.round
        return not later and wire.Result not in self._said
