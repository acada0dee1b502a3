"""A run in one process and in virtual time: the real nodes, the real records, and one seed that decides the rest.

The launcher here does what `cluster.py` does between processes: it starts everybody, lets the conditions strike, starts
again whom they killed, and gives up when a run cannot finish. What it knows of the run it knows from the record.
"""

import asyncio
import math
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError
from parley.emulator.record.question import FIELD
from parley.emulator.record.records import MEMORY
from parley.emulator.roles.analyst import Analyst, AnalystRole
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME, LAUNCHER_NAME, BoardRole
from parley.emulator.roles.mixing import keyed_draws, system_draws
from parley.emulator.roles.relay import RelayRole
from parley.emulator.roles.shuffler import SHUFFLER_NAME, ShufflerRole
from parley.emulator.transport.addresses import pace_for
from parley.emulator.transport.conditions import Conditions
from parley.emulator.transport.faults import FaultyPort
from parley.emulator.transport.ports import BROADCAST, NOTICE, PERSONAL, NodePort, SendTimeout, topic_for
from parley.emulator.transport.virtual_network import Heard, Schedule, Speaker, VirtualTransport
from parley.emulator.transport.virtual_time import FIRST_PROCESS, Killed, Process, Stalled, VirtualClock, VirtualLoop
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Abort, Announce, Event, Message, Result
from parley.launch.cluster.fault_driver import FaultDriver, Strike, plan_strikes
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import Signers, public_keys
from parley.launch.processes.command_lines import CROWD_SECONDS, SHUFFLER_SHARE
from parley.launch.processes.processes import Exit
from parley.launch.results.folder import RunFolder
from parley.nodes.analyst import AnalystNode
from parley.nodes.board import BoardNode, fresh_nonce
from parley.nodes.common import BAD_INPUT, GOOD, UNFINISHED
from parley.nodes.relay import RelayNode
from parley.nodes.shuffler import ShufflerNode
from parley.nodes.state.batches import Batches
from parley.nodes.state.reopen import open_record
from parley.nodes.state.user_state import State
from parley.nodes.state.virtual_disk import VirtualDisk
from parley.nodes.state.wallet import StoredWallet
from parley.nodes.user import SILENCE_SECONDS, serve_user
from parley.protocols.shuffle.sealed import unsealed

HEADER = {"medium": MEMORY}
LOOK_SECONDS = 0.05
LEAVE_SECONDS = 3.0
REPORT_SECONDS = 1.0
# To start a process takes a moment, between these two.
SHORTEST_START, LONGEST_START = 0.005, 0.05
# A day: nobody waits longer than the deadlines of a run.
LONGEST_RUN = 86_400.0
CRASHED = 1
living: ContextVar[Process | None] = ContextVar("living", default=None)
"""The process whose code is running."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The classes that processes are made of; whoever tests the tests puts a faulty one in their place."""

    board: type[BoardNode] = BoardNode
    analyst: type[AnalystNode] = AnalystNode
    state: type[State] = State


@dataclass
class Story:
    """What happened besides the record."""

    exits: list[Exit] = field(default_factory=list)
    crashes: list[tuple[str, BaseException]] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """In virtual time."""
    ending: Result | Abort | None = None


class VirtualRun:
    """One run. `play` raises if it cannot finish; the record is then as its board left it."""

    def __init__(
        self,
        layout: Layout,
        folder: RunFolder,
        signers: Signers,
        *,
        seed: int,
        conditions: Conditions | None = None,
        heard: Heard | None = None,
        parts: Parts | None = None,
    ) -> None:
        """`seed` and the seed of the conditions decide together; `conditions`: instead of those of the layout."""
        self.layout, self.folder, self.signers, self.parts = layout, folder, signers, parts or Parts()
        self.story = Story()
        self.loop = VirtualLoop()
        self.clock = VirtualClock(self.loop, 0)
        self._conditions = layout.parsed_conditions if conditions is None else conditions
        self.schedule = Schedule(f"{seed} {self._conditions.seed}", self.loop, heard)
        self._relay_of = layout.relay_of
        middle = (SHUFFLER_NAME,) if layout.shuffled else tuple(layout.relay_names)
        self._servers = (BOARD_NAME, *middle)
        self._links = {name: VirtualTransport(name, self.schedule) for name in self._servers}
        self._cohorts = {name: (first, users) for name, first, users in layout.cohorts()}
        self._hosted = {name: users for name, (_, users) in self._cohorts.items()}
        names = (BOARD_NAME, ANALYST_NAME, *middle, *self._cohorts)
        strikes = plan_strikes(self._conditions, names)
        self._at_steps = [each for each in strikes if each.step]
        self._driver = FaultDriver(
            strikes=[each for each in strikes if not each.step],
            report=self._report,
            send_signal=self._signal,
            start=self._start,
        )
        self._alive: dict[str, tuple[Process, VirtualDisk]] = {}
        self._numbers = 0
        self._exits: list[Exit] = []
        self._news = asyncio.Event()
        self._reports: set[asyncio.Task[None]] = set()
        self._recorded: set[str] = set()
        self._round = 0

    def play(self) -> None:
        """From the first process to the last. Whoever wants to know how the run ended looks at `story.ending`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._play()
        else:
            # A thread has one event loop at a time, and a notebook has its own.
            with ThreadPoolExecutor(1) as aside:
                aside.submit(self._play).result()

    def _play(self) -> None:
        try:
            try:
                self.loop.run_until_complete(self._launch())
            finally:
                self.story.seconds = self.loop.elapsed
                self.loop.run_until_complete(self._end())
        finally:
            self.loop.close()

    async def _launch(self) -> None:
        driver, leave = self._driver, math.inf
        for name in self._servers:
            self._start(name)
        driver.began = self.clock.now()
        for name in (ANALYST_NAME, *self._cohorts):
            if name not in driver.late:
                self._start(name)
        until = self.loop.time() + LONGEST_RUN
        while (self._alive or driver.busy) and self.clock.now() < leave:
            waits = bool(driver.strikes or driver.reports or driver.busy)
            await self._wait(LOOK_SECONDS if waits else min(leave, until) - self.clock.now())
            if self.clock.now() >= until:
                raise Stalled(f"the run is not over after {LONGEST_RUN:g} s")
            exits, self._exits = self._exits, []
            for each in exits:
                if leave == math.inf and driver.comes_back(each.name, each.status, self.clock.now()):
                    continue
                if each.name == BOARD_NAME:
                    leave = self.clock.now() + LEAVE_SECONDS
                if each.status != GOOD:
                    self._lament(each)
            if leave == math.inf:
                now, running = self.clock.now(), set(self._alive)
                driver.step(now, round_number=self._round, running=running, recorded=self._recorded)

    async def _wait(self, seconds: float) -> None:
        """Until something happened, and no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def _end(self) -> None:
        """Nobody is left behind."""
        tasks = [process.task for process, _ in self._alive.values() if process.task is not None]
        for process, _ in list(self._alive.values()):
            process.kill()
        for report in self._reports:
            report.cancel()
        await asyncio.gather(*tasks, *self._reports, return_exceptions=True)

    def _lament(self, exit: Exit) -> None:
        """Without a node that ended for good the run may be lost."""
        if self.story.ending is not None:
            return
        self._hosted.pop(exit.name, None)
        lost = sum(self._hosted.values()) < self.layout.quorum * self.layout.users
        if exit.name in (ANALYST_NAME, *self._servers) or lost:
            raise LocalProtocolError(f"{exit.name} {exit.cause} and the run cannot finish without it")

    def _start(self, name: str) -> None:
        """A new life of a node."""
        process = Process(name, self.loop, FIRST_PROCESS + self._numbers, self.story.steps[name])
        self._numbers += 1
        disk = VirtualDisk(process, self._conditions, self.schedule.chance("disk", name))
        for strike in self._at_steps:
            if strike.victim == name:
                process.strike_at(strike.step, lambda strike=strike: self._strike(strike))  # type: ignore[misc]
        self._alive[name] = process, disk
        process.task = self.loop.create_task(self._live(process, disk))

    async def _live(self, process: Process, disk: VirtualDisk) -> int:
        living.set(process)
        status = CRASHED
        try:
            chance = self.schedule.chance("start", str(process.clock.process_id()))
            await asyncio.sleep(chance.uniform(SHORTEST_START, LONGEST_START))
            with ExitStack() as stack:
                status = await self._serve(process, disk, stack)
        except (Killed, asyncio.CancelledError):
            status = -signal.SIGKILL
        except ParleyError as error:
            status = BAD_INPUT if isinstance(error, BadInput) else UNFINISHED
            self._complain(process, error)
        except Exception as error:  # noqa: BLE001 (a node that crashes is for the launcher to see, as between processes)
            self.story.crashes.append((process.name, error))
        # Whatever else of this process still waits, it is over.
        process.dead = True
        self.story.steps[process.name] = process.steps
        del self._alive[process.name]
        exit = Exit(name=process.name, pid=process.clock.process_id(), status=status)
        self.story.exits.append(exit)
        self._exits.append(exit)
        self._news.set()
        return status

    def _complain(self, process: Process, error: ParleyError) -> None:
        """What a process would print before it ends."""
        with suppress(OSError), open(self.folder.log(process.name), "a") as log:
            print(f"parley: {error}", file=log)

    async def _serve(self, process: Process, disk: VirtualDisk, stack: ExitStack) -> int:
        """Be this node to its end; what it holds is given back by the stack."""
        name = process.name
        if name == BOARD_NAME:
            return await self._serve_board(process, disk, stack)
        if name == ANALYST_NAME:
            return await self._serve_analyst(process, stack)
        if name == SHUFFLER_NAME:
            return await self._serve_shuffler(process, disk, stack)
        if name in self._servers:
            return await self._serve_relay(process, stack)
        state = stack.enter_context(self.parts.state(self.folder.node_state(name), disk=disk))
        first, users = self._cohorts[name]
        wallet, folder = None, self.layout.wallet_of(name)
        if folder is not None:
            wallet = StoredWallet.open(folder, users=users, disk=disk)
            stack.callback(wallet.close)
        server = SHUFFLER_NAME if self.layout.shuffled else self._relay_of.get(name, BOARD_NAME)
        patience = max(SILENCE_SECONDS, CROWD_SECONDS * self.layout.processes)
        inputs = self.layout.inputs[first : first + users].copy()

        def connect(node: str) -> NodePort:
            return self._under(self._links[server].connect(process, BROADCAST, topic_for(node)), process)

        return await serve_user(state, inputs, connect, patience, wallet)

    def _under(self, port: NodePort, process: Process) -> Speaker:
        """A port under the conditions, if there are any."""
        faulty = FaultyPort(port, self._conditions, process.name) if self._conditions.links else port
        return Speaker(faulty, process, self.schedule.heard)

    async def _serve_board(self, process: Process, disk: VirtualDisk, stack: ExitStack) -> int:
        layout, transcript = self.layout, self.folder.transcript
        port = self._links[BOARD_NAME].serve(process)
        stack.callback(port.close)
        role = BoardRole(layout.terms(self.folder.run), self._draw_nonce, self._keys)
        asked = {} if layout.question is None else {FIELD: layout.question}
        writer = open_record(transcript, self.folder.run, **HEADER, **asked)
        if writer is not None:
            stack.callback(writer.abandon)
            disk.continue_record(writer)
        node = self.parts.board(role, port, writer, transcript, self._relay_of, self.signers.get(BOARD_NAME))
        node.recorded = self._hear_record
        node.restore(port.clock.now())
        await node.serve()
        return GOOD if isinstance(role.ending, Result) else UNFINISHED

    async def _serve_analyst(self, process: Process, stack: ExitStack) -> int:
        layout = self.layout
        protocol = unsealed(layout.protocol, layout.opening_key) if layout.opening_key else layout.protocol
        port = self._under(self._links[BOARD_NAME].connect_analyst(process), process)
        stack.callback(port.close)
        role = AnalystRole(protocol, self.folder.run, layout.meaning)
        await self.parts.analyst(role, port, self.signers.get(ANALYST_NAME)).serve()
        return GOOD if role.state is Analyst.DONE else UNFINISHED

    async def _serve_shuffler(self, process: Process, disk: VirtualDisk, stack: ExitStack) -> int:
        layout, run = self.layout, self.folder.run
        batches = stack.enter_context(Batches(self.folder.node_state(SHUFFLER_NAME), run, disk=disk))
        inner = self._links[SHUFFLER_NAME].serve(process)
        stack.callback(inner.close)
        outer = self._under(
            self._links[BOARD_NAME].connect(process, BROADCAST, topic_for(SHUFFLER_NAME), NOTICE), process
        )
        stack.callback(outer.close)
        told = layout.terms(run)
        terms = replace(
            told,
            nodes=layout.processes,
            deadline=SHUFFLER_SHARE * told.deadline,
            join_deadline=SHUFFLER_SHARE * told.join_deadline,
        )
        role = ShufflerRole(
            terms,
            pid=process.clock.process_id(),
            draws=keyed_draws(layout.draw_seed) if layout.draw_seed else system_draws,
            memory=batches.memory,
            signer=self.signers.get(SHUFFLER_NAME),
            keys=self._keys,
        )
        await ShufflerNode(role, inner, outer, batches).serve()
        return GOOD if isinstance(role.ending, Result) else UNFINISHED

    async def _serve_relay(self, process: Process, stack: ExitStack) -> int:
        role, share = RelayRole(process.name), Counter(self._relay_of.values())[process.name]
        inner = self._links[process.name].serve(process)
        stack.callback(inner.close)
        outer = self._under(self._links[BOARD_NAME].connect(process, BROADCAST, PERSONAL), process)
        stack.callback(outer.close)
        await RelayNode(role, inner, outer, pace_for(share)).serve()
        return GOOD if isinstance(role.ending, Result) else UNFINISHED

    @property
    def _keys(self) -> dict[str, bytes] | None:
        """With which keys nodes must sign, where anybody signs."""
        return public_keys(self.signers) or None

    def _draw_nonce(self) -> bytes:
        return self.layout.nonce or fresh_nonce()

    def _hear_record(self, message: Message) -> None:
        """What the launcher reads off the record."""
        if isinstance(message, Announce):
            self._round = message.round
            self._news.set()
        elif isinstance(message, Event) and message.node == LAUNCHER_NAME:
            self._recorded.add(message.detail)
            self._news.set()
        elif isinstance(message, Result | Abort):
            self.story.ending = message

    def _report(self, event: str, detail: str, round_number: int) -> None:
        """Post an event; a board that is down does not hold up the launcher."""
        frame = encode(Event(event=event, node=LAUNCHER_NAME, round=round_number, detail=detail))
        launcher = Process(LAUNCHER_NAME, self.loop, 0)
        port = self._links[BOARD_NAME].connect(launcher)

        async def send() -> None:
            with suppress(TimeoutError, SendTimeout):
                async with asyncio.timeout(REPORT_SECONDS):
                    await port.send(frame)

        task = self.loop.create_task(send())
        self._reports.add(task)
        task.add_done_callback(self._reports.discard)

    def _signal(self, name: str, number: int) -> None:
        if name not in self._alive:
            return
        process, disk = self._alive[name]
        if number == signal.SIGSTOP:
            process.stop()
        elif number == signal.SIGCONT:
            process.wake()
        else:
            process.kill()
            if name in self._driver.struck and self._driver.struck[name].kind == "power":
                disk.lose_power()

    def _strike(self, strike: Strike) -> None:
        """At a step. It is on record when the board takes the launcher's word for it."""
        self._driver.reports.setdefault((strike.kind, strike.detail), None)
        if strike.kind == "pause":
            self._signal(strike.victim, signal.SIGSTOP)
            self.loop.call_later(strike.seconds, self._signal, strike.victim, signal.SIGCONT)
        else:
            self._driver.struck[strike.victim] = strike
            if not strike.restart:
                self._driver.doomed.add(strike.victim)
            self._signal(strike.victim, signal.SIGKILL)
        self._news.set()
