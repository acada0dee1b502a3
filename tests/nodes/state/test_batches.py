"""The shuffler's state on disk: whole or not there, refused when cut, altered, of another run or in use."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.roles.shuffler import SHUFFLER_NAME, Keep
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Replies
from parley.nodes.state.batches import Batches
from parley.nodes.state.disk import Disk

RUN = "kept"
SETUP = bytes(range(32))


def batch(number: int = 1, chunks: int = 3) -> Keep:
    frames = tuple(
        encode(
            Replies(
                run=RUN,
                round=number,
                node=SHUFFLER_NAME,
                chunk=chunk,
                chunks=chunks,
                users=np.array([chunk]),
                columns={"value": np.array([chunk * 7])},
            )
        )
        for chunk in range(chunks)
    )
    return Keep(run=RUN, setup=SETUP, round=number, frames=frames)


def fill(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with Batches(folder, RUN) as batches:
        batches.write(Keep(run=RUN, setup=SETUP))
        batches.write(batch())


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    fill(tmp_path)
    with Batches(tmp_path, RUN) as batches:
        assert batches.memory.setup == SETUP
        assert batches.memory.batches == {1: batch().frames}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["batch-1.parley", "lock", "setup.parley"]


def test_a_round_has_one_batch(tmp_path: Path) -> None:
    fill(tmp_path)
    before = (tmp_path / "batch-1.parley").read_bytes()
    with Batches(tmp_path, RUN) as batches:
        with pytest.raises(LocalProtocolError, match="already exists; nothing was sent"):
            batches.write(batch(chunks=2))
        with pytest.raises(LocalProtocolError, match="says nothing more"):
            batches.write(batch(2))
    assert (tmp_path / "batch-1.parley").read_bytes() == before


@pytest.mark.parametrize("name", ["setup.parley", "batch-1.parley"])
def test_a_state_that_is_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    path = tmp_path / name
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(BadInput, match="cut or altered"):
            Batches(tmp_path, RUN)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_state_that_is_altered_anywhere_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("state")
    fill(folder)
    path = folder / data.draw(st.sampled_from(["setup.parley", "batch-1.parley"]))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(min_value=0, max_value=len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(BadInput, match="cut or altered"):
        Batches(folder, RUN)


def test_other_states_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no folder"):
        Batches(tmp_path / "nowhere", RUN)
    fill(tmp_path)
    with pytest.raises(BadInput, match="is the state of the run 'kept', not of another"):
        Batches(tmp_path, "another")
    (tmp_path / "batch-1.parley").rename(tmp_path / "batch-2.parley")
    with pytest.raises(BadInput, match="is not a batch of the setup"):
        Batches(tmp_path, RUN)
    (tmp_path / "batch-2.parley").rename(tmp_path / "batch-1.parley")
    (tmp_path / "setup.parley").unlink()
    with pytest.raises(BadInput, match="is not a batch of the setup"):
        Batches(tmp_path, RUN)


def test_a_state_in_use_is_refused(tmp_path: Path) -> None:
    with Batches(tmp_path, RUN), pytest.raises(BadInput, match="in use by another process"):
        Batches(tmp_path, RUN)
    Batches(tmp_path, RUN).close()


class FullDisk(Disk):
    """Takes a part of what it is given, and then nothing."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, descriptor: int, content: bytes, offset: int) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = super().write(descriptor, content[: self.room], offset)
        self.room -= taken
        return taken


def test_a_full_disk_keeps_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "whole")
    size = (tmp_path / "whole" / "batch-1.parley").stat().st_size
    for room in range(0, size, 7):
        folder = tmp_path / f"room-{room}"
        folder.mkdir()
        disk = FullDisk(10_000)
        with Batches(folder, RUN, disk=disk) as batches:
            batches.write(Keep(run=RUN, setup=SETUP))
            disk.room = room
            with pytest.raises(LocalProtocolError, match="No space left on device; nothing was sent"):
                batches.write(batch())
        with Batches(folder, RUN) as again:
            assert again.memory.batches == {}
            again.write(batch())


class BrokenDisk(Disk):
    """One of its calls fails."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sync(self, descriptor: int) -> None:
        self._fail("sync")

    def link(self, source: Path, target: Path) -> None:
        self._fail("link")
        super().link(source, target)

    def sync_folder(self, path: Path) -> None:
        self._fail("sync_folder")

    def _fail(self, name: str) -> None:
        if name == self.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("name", ["sync", "link", "sync_folder"])
def test_what_is_not_safely_on_disk_is_not_said_to_be(tmp_path: Path, name: str) -> None:
    with (
        Batches(tmp_path, RUN, disk=BrokenDisk(name)) as batches,
        pytest.raises(LocalProtocolError, match="Input/output error; nothing was sent"),
    ):
        batches.write(Keep(run=RUN, setup=SETUP))
