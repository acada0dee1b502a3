"""`parley audit --against` for a run of several boards: copies of it, and what a shard's user kept."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.record.shards import FOLDER
from parley.emulator.roles.node_memory import Distrust, Evidence
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import decode, encode
from parley.emulator.wire.security import write_trust
from parley.emulator.wire.signatures import derived
from parley.nodes.state.user_state import save_evidence
from tests.emulator.samples import KEY, RUN, protocol
from tests.emulator.sharded import FILE, Whole
from tests.launch.conftest import Parley


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    made = Whole(folder, protocol(60), np.arange(60, dtype=np.int64) % 3, shards=3, nodes=6)
    made.run()
    write_trust(folder / "trust.toml", made.keys)
    return made


def folder_of(whole: Whole) -> Path:
    return whole.head.writer.path.parent


def words(whole: Whole, shard: str, kind: type[wire.Message], number: int) -> list[bytes]:
    said = whole.shards[shard].records
    return [frame for _, each, frame in said if isinstance(each, kind) and getattr(each, "round", 0) == number]


@pytest.mark.parametrize("done", ["nothing", "cut", "exchanged", "away"])
def test_a_copy_is_the_same_only_if_every_record_is(whole: Whole, tmp_path: Path, parley: Parley, done: str) -> None:
    other = Path(shutil.copytree(folder_of(whole), tmp_path / "other"))
    record = other / FOLDER / "shard-1" / FILE
    if done == "cut":
        record.write_bytes(record.read_bytes()[:-500])
    elif done == "exchanged":
        shutil.copy(other / FOLDER / "shard-2" / FILE, record)
    elif done == "away":
        shutil.rmtree(record.parent)
    said = parley("audit", other, "--against", folder_of(whole), "--json")
    relation = {"nothing": "same", "cut": "prefix", "exchanged": "different", "away": "different"}[done]
    found = said.record["against"]
    assert (said.code, found["relation"]) == (int(done != "nothing"), relation)
    assert found.get("shard") == (None if done == "nothing" else "shard-1")


def test_what_a_shards_user_kept_is_looked_for_in_its_shard(whole: Whole, tmp_path: Path, parley: Parley) -> None:
    node = "node-2"
    (close,), replies = words(whole, "shard-1", wire.Close, 2), words(whole, "shard-1", wire.Replies, 2)
    mine = tuple(frame for frame in replies if getattr(decode(frame), "node", "") == node)
    honest = Evidence(run=RUN, node=node, round=2, reason="so", close=close, frames=mine)
    run = folder_of(whole)
    said = parley("audit", run, "--against", save_evidence(tmp_path, honest))
    assert (said.code, "is on record" in said.out) == (0, True)
    told = decode(close)
    assert isinstance(told, wire.Close)
    nonce = whole.shards["shard-1"].role.nonce
    lie = encode(replace(told, replies=7), derived(KEY, "board-1"), nonce)
    for name, kept in (("a", replace(honest, close=lie)), ("b", replace(honest, before=lie))):
        (tmp_path / name).mkdir()
        said = parley("audit", run, "--against", save_evidence(tmp_path / name, kept))
        assert said.code == 1
        assert "the board signed two different closes of round 2" in said.out


def test_a_node_keeps_both_closes_of_a_board_that_lies(whole: Whole, tmp_path: Path, parley: Parley) -> None:
    """One was shown to it, the other to the head board; and of a head board that forks, its close."""
    fresh = Whole(tmp_path / "fresh", protocol(60), np.arange(60) % 3, shards=3, nodes=6).cohorts["shard-1"][0]
    ties = fresh._ties
    assert ties is not None
    nonce = whole.shards["shard-1"].role.nonce
    (tie,), (later,) = words(whole, "shard-1", wire.Tie, 1), words(whole, "shard-1", wire.Tie, 2)
    first, second = decode(tie), decode(later)
    assert isinstance(first, wire.Tie)
    assert isinstance(second, wire.Tie)
    ties.take(first, nonce, lambda number: ())
    receipt = whole.shards["shard-1"].receipt("node-2", 1)
    told = decode(receipt.close)
    assert isinstance(told, wire.Close)
    lie = encode(replace(told, replies=7), derived(KEY, "board-1"), nonce)
    with pytest.raises(Distrust) as caught:
        ties.covers(replace(receipt, close=lie), nonce, lambda number: ())
    kept = [caught.value.evidence]
    assert {kept[0].close, kept[0].before} == {lie, receipt.close}
    ties.known = (ties.known[0], bytes(32))
    with pytest.raises(Distrust, match="does not extend") as caught:
        ties.take(second, nonce, lambda number: ())
    kept.append(caught.value.evidence)
    said = [parley("audit", folder_of(whole), "--against", save_evidence(tmp_path, each)) for each in kept]
    # The first shows two closes; the second shows that the head board has signed what is on its record.
    assert [each.code for each in said] == [1, 0]
