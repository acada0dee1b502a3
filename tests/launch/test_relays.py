"""Runs through relays between real processes: the same replies, keys that hold, a relay that is killed."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from parley.emulator.errors import BadInput
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.roles.board import BoardRole, Terms
from parley.emulator.transport.addresses import descriptors_for
from parley.emulator.transport.memory import MemoryTransport
from parley.emulator.transport.ports import Received
from parley.emulator.wire.codec import bundle, encode
from parley.emulator.wire.messages import Event, Message, Ready, Replies
from parley.emulator.wire.security import write_relays
from parley.nodes.board import BoardNode, main, peers
from parley.nodes.bulk import apart
from parley.nodes.common import BAD_INPUT
from tests.launch.conftest import Parley

PROBLEM = ("--statistic", "gini-diversity", "--levels", 4, "--users", 60, "--epsilon", 2, "--seed", 3, "--quiet")
KILL = """
name = "kill"
seed = 1

[[fault]]
kind = "delay"
nodes = "node-*"
direction = "up"
messages = ["replies"]
distribution = "uniform"
seconds = 1.5
spread = 0.1

[[fault]]
kind = "kill"
nodes = "relay-0"
rounds = [1]
seconds = 0.2
"""


LOSS = """
name = "loss"
seed = 1

[[fault]]
kind = "loss"
nodes = "node-*"
messages = ["receipt", "inquiry"]
rounds = [1, 2]
probability = 0.5
"""


def recorded(folder: Path) -> list[Message]:
    return [record.message for record in TranscriptReader(folder / "transcript.parley")]


def said(folder: Path) -> set[tuple[int, int, bytes]]:
    """Every user's reply in every round, whoever carried it."""
    return {
        (message.round, int(user), b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns)))
        for message in recorded(folder)
        if isinstance(message, Replies)
        for row, user in enumerate(message.users)
    }


@pytest.mark.parametrize("secure", [(), ("--secure",)], ids=["open", "secure"])
def test_relays_change_no_reply(parley: Parley, tmp_path: Path, secure: tuple[str, ...]) -> None:
    common = ("run", *PROBLEM, "--protocol", "three-round", "--processes", 5)
    assert parley(*common, "--out", tmp_path / "straight").code == 0
    assert parley(*common, "--relays", 2, *secure, "--out", tmp_path / "relayed").code == 0
    assert said(tmp_path / "relayed") == said(tmp_path / "straight")
    assert {m.node for m in recorded(tmp_path / "relayed") if isinstance(m, Ready)} == {f"node-{i}" for i in range(5)}
    assert parley("audit", tmp_path / "relayed", "--quiet").code == 0


def test_a_killed_relay_comes_back_and_nothing_is_lost(parley: Parley, tmp_path: Path) -> None:
    conditions = tmp_path / "kill.toml"
    conditions.write_text(KILL)
    arguments = ("--protocol", "three-round", "--processes", 4, "--relays", 2, "--conditions", conditions)
    answer = parley("run", *PROBLEM, *arguments, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    messages = recorded(tmp_path / "run")
    assert any(isinstance(m, Event) and m.event == "kill" and "relay-0" in m.detail for m in messages)
    assert len(said(tmp_path / "run")) == 3 * 60
    assert all_accounted_for(tmp_path / "run", 4)


def all_accounted_for(folder: Path, nodes: int) -> bool:
    """Whether every node left because its last reply is on record, and none with a complaint."""
    logs = [(folder / "logs" / f"node-{number}.log").read_text() for number in range(nodes)]
    return not any("has not proved that the last reply" in log or "not on record" in log for log in logs)


def test_receipts_that_are_lost_behind_a_relay_are_asked_for_again(parley: Parley, tmp_path: Path) -> None:
    """A node answers the next round only when it has seen its reply to the last one on record."""
    conditions = tmp_path / "loss.toml"
    conditions.write_text(LOSS)
    arguments = ("--protocol", "three-round", "--processes", 6, "--relays", 2, "--conditions", conditions)
    answer = parley("run", *PROBLEM, *arguments, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    lost = [m for m in recorded(tmp_path / "run") if isinstance(m, Event) and m.event == "loss"]
    assert any("receipt" in m.detail for m in lost)
    assert len(said(tmp_path / "run")) == 3 * 60
    assert all_accounted_for(tmp_path / "run", 6)


def test_keys_made_beforehand_serve_relays_too(parley: Parley, tmp_path: Path) -> None:
    assert parley("keys", tmp_path / "keys", "--nodes", 3, "--relays", 1).code == 0
    arguments = ("--protocol", "two-round", "--processes", 3, "--relays", 1, "--keys", tmp_path / "keys")
    assert parley("run", *PROBLEM, *arguments, "--out", tmp_path / "run").code == 0
    assert parley("keys", tmp_path / "more", "--relays", -1).code == 2


def test_more_relays_than_nodes_are_refused(parley: Parley, tmp_path: Path) -> None:
    answer = parley("run", *PROBLEM, "--processes", 2, "--relays", 3, "--out", tmp_path / "run")
    assert (answer.code, (tmp_path / "run").exists()) == (2, False)
    assert "--relays 3" in answer.err


def test_who_connects_to_the_board() -> None:
    """Its open files grow with relays, not with the nodes behind them."""
    assert peers(7, {}) == 7
    assert peers(10_000, {f"node-{n}": f"relay-{n % 2}" for n in range(10_000)}) == 2
    assert peers(10, {f"node-{n}": f"relay-{n % 2}" for n in range(6)}) == 6


def test_a_board_behind_relays_asks_for_their_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(needed: int) -> None:
        raise BadInput(f"{needed}")

    monkeypatch.setattr("parley.nodes.state.reopen.raise_file_limit", refuse)
    relays = {f"node-{n}": f"relay-{n % 2}" for n in range(10_000)}
    write_relays(tmp_path / "relays", relays)
    board = ["--run", "r", "--users", "10000", "--nodes", "10000", "--transcript", str(tmp_path / "t.parley")]
    for behind, connected in ((["--relays", str(tmp_path / "relays")], 2), ([], 10_000)):
        answer = CliRunner().invoke(main, [*board, *behind])
        assert (answer.exit_code, answer.stderr) == (BAD_INPUT, f"parley: {descriptors_for(connected)}\n")


async def test_a_relay_speaks_for_its_own_nodes_and_for_nobody_else(tmp_path: Path) -> None:
    """With keys the board knows who sent a frame; a bundle is judged frame by frame."""
    terms = Terms(run="r", users=3, nodes=3)
    with TranscriptWriter.create(tmp_path / "t", "r") as writer:
        relays = {"node-0": "relay-0", "node-1": "relay-1"}
        board = BoardNode(BoardRole(terms), MemoryTransport().board(), writer, tmp_path / "t", relays)
        frames = [encode(Ready(node=f"node-{number}", first=number, users=1, pid=1)) for number in range(3)]
        for received in apart(Received(bundle(frames), "relay-0")):
            await board.take(received)
        assert set(board.role.seats) == {"node-0"}
        await board.take(Received(frames[2], "node-2"))
        await board.take(Received(frames[1], "relay-1"))
        await asyncio.sleep(0)
    drops = [m.detail for m in (r.message for r in TranscriptReader(tmp_path / "t")) if isinstance(m, Event)]
    assert set(board.role.seats) == {"node-0", "node-1", "node-2"}
    assert [detail.split(" sent ")[0] for detail in drops] == ["board: relay-0", "board: relay-0"]
