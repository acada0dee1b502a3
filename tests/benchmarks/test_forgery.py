"""No forgery passes the audit, and no command that reads one ends in a traceback: a short run of the benchmark."""

from pathlib import Path

from benchmarks import forgery_shards
from benchmarks.forgery import PROTOCOLS, Draft, Honest, forge
from parley.emulator.arithmetic import one_thread


def test_a_draft_of_a_record_is_that_record(tmp_path: Path) -> None:
    with one_thread():
        honest = Honest.make(tmp_path, PROTOCOLS[0])
    content = honest.path.read_bytes()
    assert Draft.read(honest.path).bytes(heads=False) == content
    assert Draft.read(honest.path).bytes(heads=True) == content, "heads that fit are left as they are"


def test_no_forgery_passes(tmp_path: Path) -> None:
    tried = forge(150, 20, seed=3, folder=tmp_path, every_command=False)
    assert tried.count == 190
    assert tried.missed == []
    assert tried.fallen == []
    # The forger gets far: many forgeries are caught by signatures alone.
    assert tried.verdicts["integrity", "pass"] > 50
    assert tried.verdicts["authorship", "fail"] > 100


def test_no_forgery_of_several_records_passes(tmp_path: Path) -> None:
    """Replies before their question, a round too many: a shard's record in any order is judged, not fallen over."""
    tried = forgery_shards.forge(150, seed=2, folder=tmp_path, names=["two-round-tuned"], every_command=False)
    assert tried.count == 150
    assert tried.missed == []
    assert tried.fallen == []
    assert tried.verdicts["authorship", "fail"] > 100
