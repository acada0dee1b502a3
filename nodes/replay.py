"""A live replay: recorded frames go through real sockets to a fresh analyst process, whose words are compared."""

import asyncio
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from parley.emulator.errors import LocalProtocolError
from parley.emulator.record.conversation import Conversation
from parley.emulator.record.diff import Difference, compare_messages
from parley.emulator.record.replay import Replay, is_word, speaking
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BoardPort
from parley.emulator.transport.zmq.ports import open_board
from parley.emulator.wire.codec import decode, envelope, pack
from parley.emulator.wire.messages import Message, Resume
from parley.nodes.common import LONGEST_SILENCE, write_addresses
from parley.nodes.environment import child_environment

Timing = Literal["fast", "recorded"]
LEAVE_SECONDS = 10.0


class Player:
    """The board's side of a replay: delivers what is on record, and waits where the analyst is to speak."""

    def __init__(self, port: BoardPort, conversation: Conversation, timing: Timing) -> None:
        self.port, self.conversation, self.timing, self.compared = port, conversation, timing, 0
        self._next = 0
        self._said: list[bytes] = []
        self._echoed: set[bytes] = set()

    async def play(self) -> Difference | None:
        """Deliver the record; the first word of the analyst that is not the recorded one."""
        before: int | None = None
        for record in self.conversation.reader:
            if self.timing == "recorded" and before is not None:
                await asyncio.sleep(max(0, record.time_ns - before) / 1e9)
            before = record.time_ns
            if is_word(record):
                while not self._said:
                    await self._listen(f"should say what is in record {record.sequence}")
                frame = self._said.pop(0)
                self.compared += 1
                self._echoed.add(frame)
                difference = compare_messages(record.message, decode(frame))
                if difference is not None:
                    return difference
            while not await self.port.deliver(envelope(record.sequence, record.sender, record.frame)):
                await self._listen(f"takes no record {record.sequence}")
            self._next = record.sequence + 1
        return None

    async def _listen(self, waiting_for: str) -> None:
        """Hear the analyst: its words are kept once, its requests for records it missed are met."""
        received = await self.port.receive(timeout=LONGEST_SILENCE)
        if not received:
            raise LocalProtocolError(f"the analyst has been silent for {LONGEST_SILENCE:g} s; it {waiting_for}")
        for each in received:
            message: Message = decode(each.frame)
            if isinstance(message, Resume):
                for record in self.conversation.reader.since(message.sequence):
                    if record.sequence >= self._next:
                        break
                    await self.port.deliver(envelope(record.sequence, record.sender, record.frame))
            elif each.frame not in self._echoed and each.frame not in self._said:
                self._said.append(each.frame)


async def replay_live(conversation: Conversation, timing: Timing = "fast") -> Replay:
    """Bind a board's port, start an analyst, play the record to it."""
    setup, _ = speaking(conversation)
    with closing(open_board(BoardAddresses.on())) as port, TemporaryDirectory(prefix="parley-replay-") as folder:
        plan, addresses = Path(folder) / "plan.parley", Path(folder) / "addresses.json"
        plan.write_bytes(pack({"protocol": setup.protocol, "parameters": setup.parameters, "domain": setup.domain}))
        write_addresses(addresses, port.addresses)
        command = (sys.executable, "-P", "-m", "parley.nodes.analyst")
        arguments = ("--run", setup.run, "--addresses", str(addresses), "--plan", str(plan))
        nowhere = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *command, *arguments, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=child_environment()
        )
        player = Player(port, conversation, timing)
        playing, ended = asyncio.ensure_future(player.play()), asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({playing, ended}, return_when=asyncio.FIRST_COMPLETED)
            # The analyst leaves when it has heard its last word; what is left of the record is for others.
            if not (await asyncio.wait({playing}, timeout=LEAVE_SECONDS))[0]:
                playing.cancel()
                raise LocalProtocolError(f"the analyst ended with exit code {ended.result()} before the record did")
        finally:
            ended.cancel()
            if process.returncode is None:
                process.kill()
            await process.wait()
    return Replay(role="analyst", compared=player.compared, difference=playing.result())
