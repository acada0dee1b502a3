"""Nothing but the content of a reply depends on the input: every attack on every protocol, for every input.

A node once answered or fell silent depending on its input when it was asked about fewer inputs than it had. So each
attack is played to a node with each input of its domain, and everything that is visible of it must be the same.
"""

from pathlib import Path

import numpy as np
import pytest

from protocols.registry import names
from tests.attacks.parties import HOSTED, INPUTS, spoken
from tests.attacks.scripts import ATTACKS
from tests.attacks.stage import Stage, Visible, play

# A refusal for which nobody was asked is none of these.
FRAMES = -(-HOSTED // 5)


def answered(visible: Visible) -> set[int]:
    """The rounds in which a reply was sent."""
    places = [each[2] for each in visible.sent if isinstance(each, tuple) and each[0] == "replies"]
    return {place[1] for place in places}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", names("shuffler"))
def test_nothing_but_the_content_of_a_reply_depends_on_the_input(name: str, attack: str, tmp_path: Path) -> None:
    expected, rounds = ATTACKS[attack], len(spoken(name).rounds)
    seen = [play(expected.script, name, each, tmp_path / str(each)) for each in range(INPUTS)]
    mixed = np.arange(HOSTED, dtype=np.int64) % INPUTS
    seen.append(play(expected.script, name, mixed, tmp_path / "mixed"))
    for other in seen[1:]:
        assert other == seen[0]
    assert seen[0].code == expected.code, (seen[0].errors, seen[0].log)
    assert not expected.refuses or seen[0].count("refusal")
    wanted = {"all": rounds, "none": 0, "before": rounds - 1}.get(expected.answers)
    assert wanted is None or answered(seen[0]) == set(range(1, wanted + 1))


@pytest.mark.parametrize("name", names("shuffler"))
def test_whatever_is_asked_for_again_the_same_bytes_come(name: str, tmp_path: Path) -> None:
    for attack in ("reminders_of_other_things", "the_same_question_again"):
        stage = Stage(name)
        play(ATTACKS[attack].script, name, 1, tmp_path / attack, stage=stage)
        for number in range(1, stage.last + 1):
            frames = {(each.chunk, frame) for frame, each in stage.replies(number)}
            assert len(frames) == FRAMES
