"""The records of several boards as one run: what an honest one shows, and what is named in a dishonest one."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.audit.report import Report, audit
from parley.emulator.errors import RemoteProtocolError, TranscriptError
from parley.emulator.record.conversation import listen
from parley.emulator.record.diff import compare_runs
from parley.emulator.record.replay import replay_analyst, replay_users
from parley.emulator.record.shards import FOLDER, ShardedReader, read_run
from parley.emulator.record.witness import Witness
from parley.emulator.roles.shards.sub_analyst import SubAnalystRole
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode
from parley.emulator.wire.signatures import derived
from parley.protocols.registry import build
from tests.emulator.samples import KEY, RUN, protocol
from tests.emulator.sharded import FILE, Whole

INPUTS = np.arange(60, dtype=np.int64) % 3
WITNESS = Witness(run=RUN, key=KEY, inputs=INPUTS)


class Liar(SubAnalystRole):
    """The sub-analyst of shard-1 adds to a sum what nobody said."""

    def _close(self, frame: bytes) -> None:
        super()._close(frame)
        if self.node == "shard-1" and self.round == 2 and self.answer is not None:
            name = sorted(self.answer.sums)[0]
            more = np.asarray(self.answer.sums[name] + 1)
            self.answer = replace(self.answer, sums={**self.answer.sums, name: more})
            self._answer_frame = encode(self.answer, self.signer, self.nonce)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest")
    Whole(folder, protocol(60), INPUTS, shards=3, nodes=6).run()
    return folder


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "copy"))


def keys() -> dict[str, bytes]:
    names = ["analyst", "board", *(f"{kind}-{number}" for kind in ("shard", "board") for number in range(3))]
    return {name: derived(KEY, name).public for name in (*names, *(f"node-{number}" for number in range(6)))}


def audited(folder: Path) -> Report:
    return audit(folder / FILE, build, witness=WITNESS, keys=keys(), generator=np.random.default_rng(1))


def test_an_honest_run_passes_every_check(honest: Path) -> None:
    report = audited(honest)
    assert report.ok, report.record()
    record = report.record()
    assert set(record["integrity"]["shards"]) == {"shard-0", "shard-1", "shard-2"}
    assert record["integrity"]["messages"]["replies"] == 18
    assert record["privacy"]["users"] == 60
    # Analyst, head board, and for each of three shards a board, a sub-analyst and two nodes.
    assert record["authorship"]["authors"] == 14


def test_the_whole_is_replayed_as_one_run(honest: Path) -> None:
    heard = listen(honest / FILE, build)
    assert heard.users == heard.replied == 60
    assert heard.observed == 3
    assert replay_analyst(heard).identical
    assert replay_users(heard, WITNESS).compared == 180
    assert replay_users(heard, WITNESS).identical


def test_shards_make_no_difference_to_what_was_said(honest: Path, tmp_path: Path) -> None:
    Whole(tmp_path, protocol(60), INPUTS, shards=2, nodes=4).run()
    compared = compare_runs(listen(honest / FILE, build), listen(tmp_path / FILE, build)).record()
    assert compared["identical"]
    assert compared["replies"] == {"a": 180, "b": 180}


def test_a_reader_goes_on_where_it_was(honest: Path) -> None:
    reader = read_run(honest / FILE)
    whole = [(record.sequence, record.frame) for record in reader]
    assert [number for number, _ in whole] == list(range(len(whole)))
    assert list(reader.since(len(whole))) == []
    assert [(record.sequence, record.frame) for record in reader.since(7)] == whole[7:]
    everything = [record.message.kind for record in ShardedReader(honest / FILE, everything=True)]
    assert everything.count("tie") == everything.count("tally") == 9
    assert {"tie", "tally", "shard"}.isdisjoint(record.message.kind for record in reader)


def test_a_forged_tally_is_found_and_its_shard_is_named(tmp_path: Path) -> None:
    """Everything is signed and fits together, but the sums are not those of the replies."""
    Whole(tmp_path, protocol(60), INPUTS, shards=3, nodes=6, sub_analyst=Liar).run()
    report = audited(tmp_path)
    assert report.named("fail") == ["result"]
    reason = report.verdicts["result"].reason
    assert reason.startswith("shard-1: the tally of round 2 is not the sum of its replies")


def test_a_swapped_shard_is_found_and_named(copy: Path) -> None:
    for name, other in (("shard-1", "away"), ("shard-2", "shard-1"), ("away", "shard-2")):
        (copy / FOLDER / name).rename(copy / FOLDER / other)
    reason = audited(copy).verdicts["integrity"].reason
    assert reason.startswith("shard-1: ")
    assert "another roster" in reason


def test_a_shard_of_another_run_is_found_and_named(copy: Path, tmp_path: Path) -> None:
    """The same users, the same questions at first, and other coins."""
    Whole(tmp_path / "other", protocol(60), INPUTS, shards=3, nodes=6, key=bytes(32)).run()
    shutil.rmtree(copy / FOLDER / "shard-2")
    shutil.copytree(tmp_path / "other" / FOLDER / "shard-2", copy / FOLDER / "shard-2")
    report = audited(copy)
    assert report.verdicts["integrity"].reason.startswith("shard-2: ")
    assert report.verdicts["authorship"].reason.startswith("shard-2: ")


def test_a_missing_shard_is_named(copy: Path) -> None:
    shutil.rmtree(copy / FOLDER / "shard-0")
    report = audited(copy)
    assert not report.ok
    assert "the record of shard-0 cannot be read" in report.verdicts["integrity"].reason
    with pytest.raises(TranscriptError, match="shard-0"):
        listen(copy / FILE, build)


def test_an_altered_byte_is_named_with_its_shard(copy: Path) -> None:
    path = copy / FOLDER / "shard-2" / FILE
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    report = audited(copy)
    assert report.verdicts["integrity"].verdict == "fail"
    assert "shard-2" in report.verdicts["integrity"].reason


@pytest.mark.parametrize("part", [f"{FOLDER}/shard-1/{FILE}", FILE])
def test_a_part_is_not_taken_for_the_whole(honest: Path, tmp_path: Path, part: str) -> None:
    shutil.copy(honest / part, tmp_path / FILE)
    report = audit(tmp_path / FILE, build)
    assert not report.ok
    assert "one of several records" in report.verdicts["integrity"].reason


def test_a_tie_that_leads_elsewhere_stops_the_users(tmp_path: Path) -> None:
    """A sub-analyst that shows its shard a path to nowhere gets no further with it."""

    class Mixed(SubAnalystRole):
        def _receive(self, receipt: wire.Receipt, frame: bytes) -> None:
            super()._receive(receipt, frame)
            if self._tie is not None and self.node == "shard-1" and self.round == 3:
                self._tie = replace(self._tie, receipt=encode(replace(receipt, sequences=(0,))))

    whole = Whole(tmp_path, protocol(60), INPUTS, shards=3, nodes=6, sub_analyst=Mixed)
    with pytest.raises(RemoteProtocolError, match="not below the head"):
        whole.run()
