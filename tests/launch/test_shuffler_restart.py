"""A shuffler that is killed in the middle of a batch, or finds its state spoilt: processes as a person starts them."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.reference.simulate_shuffled import simulate_shuffled
from parley.emulator.coins import key_from_seed
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Message, Replies, Result
from parley.launch.cluster.layout import Layout
from parley.launch.cluster.signers import make_signers, write_states
from parley.launch.problem import ProblemFlags, make_problem
from parley.launch.processes.command_lines import CommandLines
from parley.launch.processes.processes import CommandLine
from parley.launch.results.folder import RunFolder
from parley.nodes.analyst import write_plan

ROOT = Path(__file__).parents[2]
FLAGS = ProblemFlags(
    statistic="kendall", levels="3x3", users=600, epsilon=1.0, delta=1e-6, seed=5, protocol="split-and-mix"
)
QUORUM = 0.6
PATIENCE = 60.0


class Stage:
    """A run whose processes are started one by one."""

    def __init__(self, path: Path) -> None:
        problem = make_problem(FLAGS)
        self.inputs = problem.inputs
        self.protocol = problem.protocol(
            "split-and-mix", FLAGS.epsilon, delta=FLAGS.delta, quorum=QUORUM, seed=FLAGS.seed
        )
        self.folder = RunFolder(run="fragile", path=path, default=False)
        key = key_from_seed(5)
        layout = Layout(
            protocol=self.protocol, inputs=self.inputs, key=key, processes=2, quorum=QUORUM, repeatable=True
        )
        self.folder.create()
        write_plan(self.folder.plan, self.protocol)
        Witness(run=self.folder.run, key=key, inputs=self.inputs).save(self.folder.witness)
        write_states(layout, self.folder, make_signers(layout), None)
        self.command_lines = CommandLines(layout, self.folder, None)

    @property
    def frame_bytes(self) -> int:
        """A third of the batch."""
        step = self.protocol.rounds[0]
        row = sum(dtype.itemsize * _size(shape) for dtype, shape in step.reply.values())
        return 200 * (row + 1)

    def record(self) -> list[Message]:
        return [record.message for record in TranscriptReader(self.folder.transcript)]


def _size(shape: tuple[int, ...]) -> int:
    found = 1
    for each in shape:
        found *= each
    return found


@contextmanager
def started(command_line: CommandLine, *module: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", *(module or (f"parley.nodes.{command_line.node}",)), *command_line.arguments]
    with command_line.log.open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def appears(path: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


def test_killed_after_the_second_of_three_frames(tmp_path: Path) -> None:
    """The next life says the third frame of the same batch, and the estimate is that of an undisturbed run."""
    stage = Stage(tmp_path / "run")
    command_lines, folder = stage.command_lines, stage.folder
    fragile = ("tests.nodes.fragile_shuffler", str(stage.frame_bytes), str(tmp_path / "mark"))
    with started(command_lines.board()) as board:
        appears(folder.addresses)
        with started(command_lines.shuffler(), *fragile) as first, started(command_lines.analyst()) as analyst:
            appears(folder.server_addresses("shuffler"))
            one, two = command_lines.users()
            with started(one) as node, started(two) as other:
                assert first.wait(PATIENCE) == -signal.SIGKILL
                with started(command_lines.again("shuffler"), *fragile) as second:
                    assert [each.wait(PATIENCE) for each in (board, analyst, second, node, other)] == [0] * 5
    messages = stage.record()
    batch = [message for message in messages if isinstance(message, Replies)]
    assert sorted((each.chunk, each.chunks) for each in batch) == [(0, 3), (1, 3), (2, 3)]
    assert sum(len(each.users) for each in batch) == 600
    (result,) = [message for message in messages if isinstance(message, Result)]
    assert result.estimate == simulate_shuffled(stage.protocol, stage.inputs, key_from_seed(5)).estimate
    log = folder.log("shuffler").read_text()
    assert "node-" not in log


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda state: (state / "setup.parley").write_bytes(b"PARLEYB2"), "cut or altered"),
        (lambda state: state.rmdir(), "there is no folder"),
    ],
    ids=["cut", "gone"],
)
def test_a_state_that_cannot_be_believed_is_refused_in_one_sentence(tmp_path: Path, spoil: object, says: str) -> None:
    stage = Stage(tmp_path / "run")
    spoil(stage.folder.node_state("shuffler"))  # type: ignore[operator]
    command_line = stage.command_lines.shuffler()
    with started(command_line) as shuffler:
        assert shuffler.wait(PATIENCE) == 2
    (line,) = command_line.log.read_text().splitlines()
    assert line.startswith("parley: ")
    assert says in line
