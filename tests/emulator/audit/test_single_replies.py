"""Users who speak once are audited as they come: what is said of them is what a ledger of all users says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.audit import privacy
from parley.emulator.audit.privacy import check_privacy
from parley.emulator.record.user_sets import UserSet
from parley.emulator.wire.messages import Replies
from parley.protocols import registry
from parley.protocols.workloads.kendall import Kendall
from tests.emulator.audit.recordings import Change, heard, inputs_for, record, replace_first, rewrite

NAMES = ("two-round-tuned", "one-round-tuned", "frequency-grr", "frequency-subset", "one-round", "three-round")
USERS = 300


def said_of(path: Path) -> dict[str, Any]:
    return check_privacy(heard(path)).record()


def ledgers_only(path: Path, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The same audit as if everybody had spoken several times."""
    answering = privacy._answering

    def everybody(*given: Any) -> tuple[UserSet, UserSet]:
        users, _ = answering(*given)
        return users, users

    with patch.context() as inside:
        inside.setattr(privacy, "_answering", everybody)
        return said_of(path)


def recorded(tmp_path: Path, name: str) -> Path:
    protocol = registry.design(name, Kendall(levels=(3, 3)), epsilon=1.0, users=USERS)
    return record(tmp_path / "whole", protocol, inputs_for(protocol, USERS), chunk=64)


@pytest.mark.parametrize("name", NAMES)
def test_losses_are_those_of_the_ledgers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = recorded(tmp_path, name)
    found = said_of(path)
    assert found["users"] == USERS
    assert found == ledgers_only(path, monkeypatch)


def outside(replies: Replies) -> Replies:
    """One user sends what nobody can send."""
    (name, column), *_ = replies.columns.items()
    changed = np.array(column)
    changed[3] = np.iinfo(changed.dtype).max
    return _with(replies, replies.users, {name: changed})


def of_another(replies: Replies) -> Replies:
    """Somebody speaks in the place of a user whose turn it is not."""
    free = np.setdiff1d(np.arange(replies.users[0], replies.users[-1]), replies.users)
    users = np.sort(np.append(replies.users[:-1], free[0]))
    return _with(replies, users, replies.columns)


def _with(replies: Replies, users: Any, columns: Any) -> Replies:
    rest = {each: getattr(replies, each) for each in ("run", "round", "node", "chunk", "chunks", "question")}
    return Replies(**rest, users=users, columns=columns)


def twice(said: list[tuple[str, Any]]) -> Any:
    """One frame comes again, with other bytes."""
    for sender, message in said:
        yield sender, message
        if isinstance(message, Replies) and message.chunk == 1 and message.round == 1:
            (name, column), *_ = message.columns.items()
            yield sender, _with(message, message.users, {name: (np.array(column) + 1) % 2})


@pytest.mark.parametrize(
    "change",
    [replace_first(Replies, outside), replace_first(Replies, of_another), twice],
    ids=["outside", "turn", "twice"],
)
def test_offences_are_those_of_the_ledgers(change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = rewrite(recorded(tmp_path, "two-round-tuned"), tmp_path / "changed", change)
    found = said_of(path)
    assert found["verdict"] == "fail"
    assert found == ledgers_only(path, monkeypatch)


def of_another_type(replies: Replies) -> Replies:
    """Columns of another type than declared: these replies have no likelihood."""
    columns = {name: column.astype(np.uint32) for name, column in replies.columns.items()}
    return _with(replies, replies.users, columns)


def test_a_sample_is_of_those_whose_replies_can_be_judged(tmp_path: Path) -> None:
    """Who answered is known from what was heard, unless a frame is not as declared: then each is looked at."""
    whole = recorded(tmp_path, "two-round-tuned")
    altered = rewrite(whole, tmp_path / "altered", replace_first(Replies, of_another_type))
    for path, lost in ((whole, 0), (altered, sum(len(each.users) for each in first_replies(whole)))):
        for sample in (None, 50):
            found = check_privacy(heard(path), sample=sample, generator=np.random.default_rng(1)).record()
            assert (found["verdict"], found["population"]) == ("fail" if lost else "pass", USERS - lost)
            assert len(found["offences"]) == (1 if lost else 0)


def first_replies(path: Path) -> list[Replies]:
    """The first frame of replies on record."""
    return [message for _, message in heard(path).messages() if isinstance(message, Replies)][:1]
