"""Each planted fault is found by the check that is there for it, and the protocol without it passes that check."""

from pathlib import Path

import pytest

from benchmarks.planted import FAULTS, FOLDER, STAGES, Fault, examine, row_of
from parley.launch.testkit.stages import find_stages, run_stages
from parley.launch.testkit.target import find_target
from tests.launch.conftest import ROOT

EXAMPLES = ROOT / "docs" / "examples"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.file)
def test_a_planted_fault_is_found_by_its_check(fault: Fault) -> None:
    report = examine(fault)
    assert not report.ok
    assert row_of(fault, report)["check"] == fault.check, [(each.check, each.says) for each in report.failures]


def test_every_planted_file_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {fault.file for fault in FAULTS}


@pytest.mark.parametrize("file", ["mean", "histogram", "range_refinement", "own_protocol"])
def test_the_examples_pass(file: str) -> None:
    report = run_stages(find_target(str(EXAMPLES / f"{file}.py")), "quick", find_stages(STAGES))
    assert report.ok, [(each.check, each.says) for each in report.failures]


# Sources with the fault mended: the check that found it has nothing to say any more.
MENDED = {
    "double_budget": ("0.6 * self.epsilon", "0.5 * self.epsilon"),
    "weak_branch": ("3 * self.epsilon", "self.epsilon"),
    "missing_clip": ("(self.values - centre) * scale)", "np.clip((self.values - centre) * scale, -0.5, 0.5))"),
    "shard_dither": ("np.arange(len(inputs)) % 2 - 0.5", "0.0"),
    "unchecked_broadcast": (
        '        return {"x": parley.Send(Flip',
        '        parley.require(1 - self.safe <= keep <= self.safe, "too loud")\n        return {"x": parley.Send(Flip',
    ),
    "wrong_variance": ("self.unit / 3", "self.unit"),
    "input_silence": ("(inputs > 0.99).all()", "(inputs > 1.99).all()"),
    "boot_salt": ("default_rng()", "default_rng(1)"),
    "forgotten_limit": ("HEARD.get(self.epsilon / 2, 1000.0)", "1.0"),
    "set_order": ("list(set(shares))", "sorted(set(shares))"),
    "first_user": ("np.where(inputs[:, 1] > 0,", "np.where(inputs[:, 1] > 1,"),
    "open_door": ('np.ones(len(reply["bit"]), np.bool_)', "super().check(reply)"),
    "twin_replies": ("sent[1:] != sent[:-1]", "sent[1:] == sent[1:]"),
    "lost_users": (" * heard.replies / self.users", ""),
}


@pytest.mark.parametrize("file", MENDED)
def test_without_its_fault_it_passes(file: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{file}.py").read_text()
    before, after = MENDED[file]
    assert before in text
    path = tmp_path / f"{file}.py"
    path.write_text(text.replace(before, after))
    (check,) = [fault.check for fault in FAULTS if fault.file == file]
    report = run_stages(find_target(str(path)), "quick", find_stages(STAGES))
    assert [each.says for each in report.failures if each.check == check] == []
