"""Wallets on disk: written before anything follows, whole or refused, whatever the disk does."""

import errno
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.roles.wallet.entries import Mask, Terms, View
from parley.emulator.roles.wallet.wallet import Wallet
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Replies
from parley.nodes.state.disk import Disk
from parley.nodes.state.log import SLOT
from parley.nodes.state.wallet import StoredWallet
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity
from parley.protocols.workloads.kendall import Kendall

ROOT = Path(__file__).resolve().parents[3]
USERS = 5
DOMAIN = {"columns": ({"name": "age", "low": 18.0, "high": 90.0, "levels": 3},)}
TERMS = Terms(users=USERS, mode="constant", cap=1.5, delta_cap=1e-6, inputs=3, domain=DOMAIN)


class Crash(BaseException):
    """The process is gone."""


class Faulty(Disk):
    """Fails at its n-th call that changes something; a crash leaves half of what was being written."""

    def __init__(self, at: int, fault: int | None) -> None:
        self.at, self.fault, self.calls = at, fault, 0

    def _due(self) -> bool:
        self.calls += 1
        return self.calls == self.at

    def _fail(self) -> None:
        raise Crash if self.fault is None else OSError(self.fault, os.strerror(self.fault))

    def write(self, handle: int, data: bytes | memoryview, at: int) -> int:
        if self._due():
            super().write(handle, data[: len(data) // 2], at)
            self._fail()
        return super().write(handle, data, at)

    def sync(self, handle: int) -> None:
        if self._due():
            self._fail()
        super().sync(handle)

    def sync_folder(self, path: Path) -> None:
        if self._due():
            self._fail()
        super().sync_folder(path)

    def truncate(self, handle: int, size: int) -> None:
        if self._due():
            self._fail()
        super().truncate(handle, size)


class Sipping(Disk):
    """Takes three bytes at a time and gives seven."""

    def write(self, handle: int, data: bytes | memoryview, at: int) -> int:
        return super().write(handle, data[:3], at)

    def read(self, handle: int, size: int) -> bytes:
        return super().read(handle, min(size, 7))


def grr(inputs: int = 3, epsilon: float = 0.5) -> FrequencyGrr:
    return FrequencyGrr.design(GiniDiversity(levels=inputs), epsilon=epsilon, users=10)


def category(numbers: Any) -> dict[str, Any]:
    return {"category.category": np.asarray(numbers, np.uint32)}


def made(path: Path, terms: Terms = TERMS) -> Path:
    StoredWallet.create(path / "w", terms)
    return path / "w"


def opened(folder: Path, **changes: Any) -> StoredWallet:
    return StoredWallet.open(folder, **{"users": USERS, **changes})


def ask(wallet: Wallet, run: str, protocol: FrequencyGrr, replies: Any, view: View | None = None) -> Mask:
    wallet.accept(run, protocol, view=view or View())
    mask = wallet.grant(run, 1, {})
    where = np.flatnonzero(mask)
    for part in (where[::2], where[1::2]):
        wallet.said(run, 1, part, category(np.asarray(replies)[part]))
    return mask


def losses(folder: Path) -> list[float]:
    return [float(each) for each in StoredWallet.look(folder).spent().loss]


def test_everything_survives(tmp_path: Path) -> None:
    """All kinds of entries, read again by another object: the same losses, runs, answers and refusals."""
    folder, memory = made(tmp_path), Wallet(TERMS, build)
    shuffled = design("shuffled", GiniDiversity(levels=3), epsilon=0.2, users=1000, delta=1e-6)
    for number in range(2):
        wallet = opened(folder)
        for each in (wallet, memory):
            ask(each, f"fine-{number}", grr(), [0, 1, 2, 0, number])
            ask(each, f"coarse-{number}", grr(2, 0.2), [0, 1, 0, 1, 0], View(coarsening=np.array([0, 1, 0])))
            ask(each, f"other-{number}", grr(2, 0.1), [0, 1, 0, 1, 0], View(domain={"kind": "other"}))
            each.accept(f"shuffled-{number}", shuffled, trusts="shuffler")
        assert np.array_equal(wallet.spent().loss, memory.spent().loss)
        wallet.close()
    again = opened(folder)
    assert again.terms == TERMS
    assert again.runs == memory.runs
    assert again.spent().loss == pytest.approx(memory.spent().loss, abs=1e-13)
    assert again.spent().delta.tolist() == memory.spent().delta.tolist() == [1e-6] * USERS
    for run in ("fine-0", "fine-1"):
        assert np.array_equal(again.grant(run, 1, {}), memory.grant(run, 1, {}))
    before = (folder / "log").stat().st_size
    again.said("fine-0", 1, np.arange(USERS), category([0, 1, 2, 0, 0]))
    assert (folder / "log").stat().st_size == before
    with pytest.raises(LocalProtocolError, match="second, different reply"):
        again.said("fine-0", 1, np.arange(USERS), category([0, 1, 2, 0, 1]))
    assert not again.accept("shuffled-2", shuffled, trusts="shuffler").any()
    assert (folder / "log").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_protocol_is_written_down_once(tmp_path: Path) -> None:
    """What a run of a known protocol adds is small, however long its parameters."""
    folder = made(tmp_path)
    protocol = design("one-round-tuned", GiniDiversity(levels=3), epsilon=0.1, users=10)
    sizes = []
    for run in ("one", "two"):
        wallet = opened(folder)
        wallet.accept(run, protocol, view=View())
        wallet.close()
        sizes.append((folder / "log").stat().st_size)
    assert sizes[1] - sizes[0] < 300
    assert StoredWallet.look(folder).runs == ("one", "two")


def test_a_reply_is_on_disk_before_it_can_be_sent_and_a_question_before_it_is_answered(tmp_path: Path) -> None:
    folder = made(tmp_path)
    wallet = opened(folder)
    wallet.accept("run", grr(), view=View())
    assert losses(folder) == [0.0] * USERS
    wallet.grant("run", 1, {})
    assert losses(folder) == [0.5] * USERS
    # The node dies here: the next one finds the reservation, answers the same question, and the reply replaces it.
    wallet.close()
    again = opened(folder)
    again.accept("now", grr(epsilon=1.0), view=View())
    assert again.grant("now", 1, {}).all()
    assert losses(folder) == [1.5] * USERS
    assert not again.could_answer(0.1).any()
    assert again.grant("run", 1, {}).all()
    again.said("run", 1, np.arange(USERS), category([0] * USERS))
    again.said("now", 1, np.arange(USERS), category([1] * USERS))
    assert losses(folder) == pytest.approx([1.0] * USERS, abs=1e-12)


def test_a_wallet_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with pytest.raises(BadInput, match="is for 5 users, not 4"):
        opened(folder, users=4)
    with pytest.raises(BadInput, match="cannot be opened: No such file"):
        opened(tmp_path / "nowhere")
    # A refused wallet is not left locked.
    opened(folder).close()


def test_a_wallet_in_use_is_refused_but_can_be_looked_at(tmp_path: Path) -> None:
    folder = made(tmp_path)
    wallet = opened(folder)
    with pytest.raises(BadInput, match="in use by another process"):
        opened(folder)
    assert losses(folder) == [0.0] * USERS
    with pytest.raises(BadInput, match="for reading only"):
        StoredWallet.look(folder).accept("run", grr(), view=View())
    wallet.close()
    opened(folder).close()


def test_an_existing_folder_is_never_written_over(tmp_path: Path) -> None:
    folder = made(tmp_path)
    before = (folder / "log").read_bytes()
    with pytest.raises(BadInput, match="already exists"):
        StoredWallet.create(folder, TERMS)
    assert (folder / "log").read_bytes() == before
    with pytest.raises(BadInput, match="cannot be created"):
        StoredWallet.create(tmp_path / "no" / "where", TERMS)
    assert [each.name for each in tmp_path.iterdir()] == ["w"]


def filled(path: Path) -> Path:
    folder = made(path)
    wallet = opened(folder)
    ask(wallet, "run", grr(), [0, 1, 2, 0, 1])
    wallet.close()
    return folder


def test_a_cut_wallet_is_refused_wherever_it_was_cut(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    whole = (folder / "log").read_bytes()
    for length in range(len(whole)):
        (folder / "log").write_bytes(whole[:length])
        with pytest.raises(BadInput, match=r"cut or damaged|is not a wallet"):
            opened(folder)
        with pytest.raises(BadInput, match=r"cut or damaged|is not a wallet"):
            StoredWallet.look(folder)
    (folder / "log").write_bytes(whole)
    opened(folder).close()


def test_a_changed_byte_is_refused(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    whole = (folder / "log").read_bytes()
    for place in range(0, len(whole), 7):
        (folder / "log").write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(BadInput, match=r"cut or damaged|is not a wallet"):
            opened(folder)


def test_two_changes_that_cancel_are_refused(tmp_path: Path) -> None:
    """Without the newest slot of the head the last entry would pass for one that was not written to its end."""
    folder = filled(tmp_path)
    log, head = (folder / "log").read_bytes(), (folder / "head").read_bytes()
    for slot in range(0, len(head), SLOT.size):
        (folder / "head").write_bytes(head[:slot] + bytes([head[slot] ^ 4]) + head[slot + 1 :])
        for damaged in (log[:-1], log[:-1] + b"\0"):
            (folder / "log").write_bytes(damaged)
            with pytest.raises(BadInput, match="cut or damaged"):
                opened(folder)
        (folder / "log").write_bytes(log)
        opened(folder).close()


@pytest.mark.parametrize("damage", [b"", b"nonsense" * 20])
def test_without_its_head_a_wallet_is_refused(tmp_path: Path, damage: bytes) -> None:
    folder = filled(tmp_path)
    (folder / "head").write_bytes(damage)
    with pytest.raises(BadInput, match="head cannot be read"):
        opened(folder)
    (folder / "head").unlink()
    with pytest.raises(BadInput, match="cannot be opened"):
        opened(folder)


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\xff" * 50, b"\1"])
def test_what_was_not_written_to_its_end_never_happened(tmp_path: Path, tail: bytes) -> None:
    folder = filled(tmp_path)
    before, whole = losses(folder), (folder / "log").read_bytes()
    (folder / "log").write_bytes(whole + tail)
    assert losses(folder) == before
    wallet = opened(folder)
    assert (folder / "log").read_bytes() == whole
    ask(wallet, "next", grr(), [0] * USERS)
    wallet.close()
    assert StoredWallet.look(folder).runs == ("run", "next")


def test_a_disk_that_takes_a_few_bytes_at_a_time(tmp_path: Path) -> None:
    StoredWallet.create(tmp_path / "w", TERMS, disk=Sipping())
    wallet = opened(tmp_path / "w", disk=Sipping())
    ask(wallet, "run", grr(), [0, 1, 2, 0, 1])
    wallet.close()
    assert opened(tmp_path / "w", disk=Sipping()).runs == ("run",)


def steps(wallet: StoredWallet) -> list[Callable[[], object]]:
    replies = category([0, 1, 2, 0, 1])
    return [
        lambda: wallet.accept("run", grr(), view=View()),
        lambda: wallet.grant("run", 1, {}),
        lambda: wallet.said("run", 1, np.arange(USERS), replies),
    ]


@pytest.mark.parametrize("fault", [None, errno.ENOSPC, errno.EIO], ids=["crash", "ENOSPC", "EIO"])
def test_whatever_the_disk_does_nothing_said_is_lost(tmp_path: Path, fault: int | None) -> None:
    """Fail at every call in turn. What was confirmed is there afterwards; what was not is there whole or not at all."""
    at, failed, refused = 0, True, list[str]()
    while failed:
        at += 1
        folder = made(tmp_path / str(at)) if not (tmp_path / str(at)).mkdir() else Path()
        wallet = opened(folder, disk=Faulty(at, fault))
        done, failed = 0, False
        for step in steps(wallet):
            try:
                step()
            except (BadInput, Crash) as error:
                refused.append(str(error))
                failed = True
                break
            done += 1
        wallet.close()
        again = opened(folder)
        assert len(again.runs) >= min(1, done)
        # A reservation that was confirmed counts, a reply that was confirmed is known.
        if done >= 2:
            assert again.spent().loss == pytest.approx([0.5] * USERS, abs=1e-12)
        if done == 3:
            with pytest.raises(LocalProtocolError, match="second, different"):
                again.said("run", 1, np.arange(USERS), category([1] * USERS))
        for step in steps(again):
            step()
        assert again.spent().loss == pytest.approx([0.5] * USERS, abs=1e-12)
        again.close()
        assert losses(folder) == pytest.approx([0.5] * USERS, abs=1e-12)
    # Each of three entries is two writes and two calls of fsync.
    assert len(refused) == 12
    assert fault is None or all("nobody answers" in each for each in refused)


def test_after_a_full_disk_one_may_try_again_but_not_after_a_failed_fsync(tmp_path: Path) -> None:
    folder = made(tmp_path)
    size = (folder / "log").stat().st_size
    wallet = opened(folder, disk=Faulty(1, errno.ENOSPC))
    with pytest.raises(BadInput, match="No space left"):
        wallet.accept("run", grr(), view=View())
    assert (folder / "log").stat().st_size == size
    assert wallet.accept("run", grr(), view=View()).all()
    wallet.close()
    wallet = opened(folder, disk=Faulty(2, errno.EIO))
    for _ in range(2):
        with pytest.raises(BadInput, match="Input/output error"):
            wallet.grant("run", 1, {})


class Dead(Disk):
    """Writes one byte and then nothing any more."""

    def write(self, handle: int, data: bytes | memoryview, at: int) -> int:
        if at and len(data) > 1:
            super().write(handle, data[:1], at)
        raise OSError(errno.EIO, "gone")

    def truncate(self, handle: int, size: int) -> None:
        raise OSError(errno.EIO, "gone")


def test_a_disk_that_cannot_take_back_is_not_written_to_again(tmp_path: Path) -> None:
    folder = made(tmp_path)
    wallet = opened(folder, disk=Dead())
    for _ in range(2):
        with pytest.raises(BadInput, match="cannot be written: gone"):
            wallet.accept("run", grr(), view=View())
    wallet.close()
    again = opened(folder)
    assert again.runs == ()
    ask(again, "run", grr(), [0] * USERS)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EIO])
def test_a_new_wallet_is_there_as_a_whole_or_not_at_all(tmp_path: Path, fault: int) -> None:
    # Magic, entry and head, with the folder and the folder around it: seven calls.
    for at in range(1, 8):
        with pytest.raises(BadInput, match=os.strerror(fault)):
            StoredWallet.create(tmp_path / "w", TERMS, disk=Faulty(at, fault))
        assert list(tmp_path.iterdir()) == []
    StoredWallet.create(tmp_path / "w", TERMS, disk=Faulty(8, fault))
    opened(tmp_path / "w").close()


PROGRAM = """
import sys
import numpy as np
from pathlib import Path
from parley.emulator.roles.wallet.entries import View
from parley.nodes.state.wallet import StoredWallet
from tests.nodes.state.test_wallet import grr, category
wallet = StoredWallet.open(Path(sys.argv[1]), users=5)
for number in range(10**6):
    run = f"run-{number}"
    wallet.accept(run, grr(epsilon=0.01), view=View())
    may = wallet.grant(run, 1, {})
    wallet.said(run, 1, np.flatnonzero(may), category([number % 3] * int(may.sum())))
    print(number, flush=True)
"""


def test_a_killed_process_leaves_all_it_confirmed(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split()
    confirmed = len(said) + len(rest)
    again = opened(folder)
    assert confirmed <= len(again.runs) <= confirmed + 1
    # The replies of three runs cancel each other; a reservation of the last run may be left.
    assert math.isclose(float(again.spent().loss.max()), float(again.spent().loss.min()), abs_tol=1e-12)
    assert again.spent().loss.max() <= 0.02 + 1e-9


@pytest.mark.parametrize("name", ["three-round", "two-round-tuned", "two-round-black-box"])
def test_protocols_of_several_rounds_cost_what_their_replies_say(tmp_path: Path, name: str) -> None:
    """Three runs through a wallet on disk, opened anew for each: losses are those of the recorded likelihoods."""
    users, inputs = 60, np.arange(60) % 9
    folder = made(tmp_path, Terms(users=users, mode="constant", cap=3.0, inputs=9))
    protocol, log = design(name, Kendall(levels=(3, 3)), epsilon=1.0, users=users), np.zeros((users, 9))
    for number in range(3):
        wallet = opened(folder, users=users)
        wallet.accept(f"run-{number}", protocol, view=View())
        for _, message in conversation(protocol, inputs, key_from_seed(number), nodes=2):
            if isinstance(message, Announce):
                broadcast, numbered = message.broadcast, message.round
                step = protocol.rounds[numbered - 1]
                asked = step.participates(np.arange(users))
                assert np.array_equal(wallet.grant(f"run-{number}", numbered, broadcast, asked), asked)
            if isinstance(message, Replies):
                columns = step.complete(broadcast, message.users, message.columns)
                wallet.said(f"run-{number}", numbered, message.users, columns)
                log[message.users] += step.log_likelihood(broadcast, columns)
        wallet.close()
    spent = StoredWallet.look(folder).spent().loss
    assert spent == pytest.approx(np.ptp(log, axis=1), abs=1e-9)
    # Where replies contradict each other, three runs of epsilon 1 cost less than 3.
    assert spent.max() <= 3 + 1e-9
    assert 0 < spent.mean() < 2.5
