"""Real nodes with every input of the domain, and a setup about fewer inputs: silence must not tell who has which.

Nodes used to build what they were told and to compare with their own input: those with 0 and 1 answered, those with
2 and 3 left.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from parley.emulator.wire.messages import Refusal, Replies, Setup
from tests.attacks.impostor import Impostor, victim
from tests.attacks.parties import BOARD, abort, announces_of, consent_for, make_state, setup_of, spoken

HONEST = spoken("frequency-grr", epsilon=0.01)


def two_levels(domain: bool) -> Setup:
    smaller = spoken("frequency-grr", inputs=2, epsilon=0.01)
    return setup_of(smaller, **({"domain": {"inputs": 4}} if domain else {}))


@pytest.mark.parametrize("domain", [True, False])
def test_a_setup_about_fewer_inputs_tells_nobody_apart(domain: bool, tmp_path: Path) -> None:
    names = [f"node-{each}" for each in range(4)]
    with Impostor() as board, ExitStack() as stack:
        nodes = {}
        for each, name in enumerate(names):
            consent = consent_for(HONEST)
            state = make_state(tmp_path / name, consent, node=name, first=each, users=1)
            nodes[name] = stack.enter_context(victim(board, state, each))
        board.gather(*names)
        board.say(two_levels(domain))
        board.say(announces_of("frequency-grr")[0])

        def visible(name: str) -> tuple[int, int, int | None]:
            return len(board.of(Refusal, name)), len(board.of(Replies, name)), nodes[name].process.poll()

        board.until(lambda: all(visible(name) != (0, 0, None) for name in names))
        assert {visible(name) for name in names} == {(1, 0, None)}
        board.say(setup_of(HONEST))
        board.say(announces_of("frequency-grr")[0])
        board.until(lambda: all(board.of(Replies, name) for name in names))
        board.say(abort(), BOARD)
        assert {node.wait() for node in nodes.values()} == {3}
        assert len({board.of(Refusal, name)[0].reason.replace(name, "") for name in names}) == 1
        assert {len(board.of(Refusal, name)) for name in names} == {1}
        assert {len(board.replies(1, name)) for name in names} == {1}
        assert len({node.words.replace(name, "") for name, node in nodes.items()}) == 1
        assert len({(tmp_path / name / "state.parley").stat().st_size for name in names}) == 1
