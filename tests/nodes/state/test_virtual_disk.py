"""The disk of a virtual process: what a kill, a loss of power and a failing disk leave behind."""

import errno
import random
from contextlib import suppress
from pathlib import Path

import pytest

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.roles.node_memory import Answered, Seated
from parley.emulator.transport.conditions import Conditions, Fault
from parley.emulator.transport.virtual_time import Killed, Process, VirtualLoop
from parley.nodes.state.user_state import Identity, State
from parley.nodes.state.virtual_disk import VirtualDisk

COMMITS = (
    Seated(run="run", digest=bytes(32), nonce=bytes(16)),
    *(Answered(round=number, question=bytes([number] * 32), announce=b"asked") for number in (1, 2, 3)),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    consent = Consent(run="run", domain=domain_of(4), cap=1.0)
    keys = {"coin_key": bytes(32), "signing_key": b""}
    State.create(tmp_path / "state", Identity(node="node-0", first=0, users=1, consent=consent, **keys))
    return tmp_path / "state"


def disk_of(*faults: Fault, seed: int = 0, fatal: int | None = None, power: bool = False) -> VirtualDisk:
    """The disk of a process that is killed, or loses power, at a step."""
    loop = VirtualLoop()
    loop.close()
    process = Process("node-0", loop, 1)
    disk = VirtualDisk(process, Conditions(faults=faults), random.Random(seed))

    def strike() -> None:
        process.kill()
        if power:
            disk.lose_power()

    if fatal is not None:
        process.strike_at(fatal, strike)
    return disk


def live(folder: Path, disk: VirtualDisk) -> int:
    """Write down all commitments; how many were acknowledged."""
    acknowledged = 0
    with suppress(Killed, LocalProtocolError), State(folder, disk=disk) as state:
        for commit in COMMITS:
            state.write(commit)
            acknowledged += 1
    return acknowledged


def remembered(folder: Path) -> int | None:
    """How many commitments the next life finds; None where it refuses the state."""
    try:
        with State(folder) as state:
            return (state.memory.seated is not None) + len(state.memory.answered)
    except BadInput:
        return None


@pytest.mark.parametrize("step", range(1, 9))
def test_a_killed_process_leaves_what_it_wrote(folder: Path, step: int) -> None:
    """Every commitment is a write and a sync; to be killed between them loses nothing."""
    assert live(folder, disk_of(fatal=step)) == (step - 1) // 2
    assert remembered(folder) == step // 2


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("step", range(1, 9))
def test_without_power_what_was_synced_stays_and_the_rest_is_there_torn_or_gone(
    folder: Path, step: int, seed: int
) -> None:
    acknowledged = live(folder, disk_of(fatal=step, power=True, seed=seed))
    assert acknowledged == (step - 1) // 2
    found = remembered(folder)
    assert found is None or found in (acknowledged, step // 2)
    if step % 2:
        # It died before the write: nothing was at stake.
        assert found == acknowledged


def test_all_three_outcomes_of_an_unsynced_write_happen(folder: Path) -> None:
    original, outcomes = (folder / "state.parley").read_bytes(), set()
    for seed in range(40):
        (folder / "state.parley").write_bytes(original)
        live(folder, disk_of(fatal=4, power=True, seed=seed))
        outcomes.add(remembered(folder))
    assert outcomes == {1, 2, None}


@pytest.mark.parametrize("kind", ["disk-full", "disk-error"])
@pytest.mark.parametrize("call", range(1, 9))
def test_a_failing_disk_acknowledges_nothing_that_is_not_there(folder: Path, kind: str, call: int) -> None:
    acknowledged = live(folder, disk_of(Fault(kind=kind, nth=(call,))))
    found = remembered(folder)
    # A disk with room for half an entry has room again when it is asked for the rest.
    assert acknowledged == (len(COMMITS) if kind == "disk-full" and call % 2 else (call - 1) // 2)
    assert found is None or found >= acknowledged


def test_a_full_disk_takes_a_part_and_then_nothing(tmp_path: Path) -> None:
    disk, path = disk_of(Fault(kind="disk-full")), tmp_path / "file"
    path.touch()
    descriptor = disk.open(path, 2)
    assert disk.write(descriptor, b"12345678", 0) == 4
    with pytest.raises(OSError, match="No space left") as raised:
        disk.write(descriptor, b"8", 4)
    assert raised.value.errno == errno.ENOSPC
    disk.close(descriptor)
    assert path.read_bytes() == b"1234"
