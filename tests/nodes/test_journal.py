"""The journal: on disk before an answer, believed after a restart, never trusted when damaged."""

from pathlib import Path

import pytest

from emulator.errors import BadInput
from emulator.roles import Commit
from nodes.journal import Journal, keep_key


def commit(number: int, run: str = "r") -> Commit:
    return Commit(run=run, round=number, digest=bytes([number] * 32))


def test_commitments_survive(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.write(commit(1))
    journal.write(commit(2))
    journal.close()
    again = Journal(tmp_path / "j")
    assert again.run == "r"
    assert again.commitments == {1: bytes([1] * 32), 2: bytes([2] * 32)}
    assert (tmp_path / "j").stat().st_mode & 0o777 == 0o600


def test_a_torn_line_was_never_acted_upon(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal(path)
    journal.write(commit(1))
    journal.write(commit(2))
    journal.close()
    path.write_bytes(path.read_bytes()[:-5])
    again = Journal(path)
    assert set(again.commitments) == {1}
    again.write(commit(2))
    again.close()
    assert set(Journal(path).commitments) == {1, 2}


@pytest.mark.parametrize("damage", [b"{}\n", b"nonsense\n", b'{"run": "r", "round": 1, "digest": "zz"}\n'])
def test_a_damaged_journal_silences_the_node(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "j").write_bytes(damage)
    with pytest.raises(BadInput, match="must not speak"):
        Journal(tmp_path / "j")


def test_one_journal_speaks_of_one_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.write(commit(1, "one"))
    journal.write(commit(2, "other"))
    journal.close()
    with pytest.raises(BadInput, match="two runs"):
        Journal(tmp_path / "j")


def test_the_key_is_drawn_once_and_kept_private(tmp_path: Path) -> None:
    state = tmp_path / "state"
    key = keep_key(state)
    assert keep_key(state) == key
    assert (state / "coins.key").stat().st_mode & 0o777 == 0o600
    (state / "coins.key").chmod(0o644)
    with pytest.raises(BadInput, match="read by others"):
        keep_key(state)
