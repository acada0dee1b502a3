"""Whole runs with a fixed seed, to be compared with the undisturbed one."""

import sys
from collections.abc import Iterable
from pathlib import Path

from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.wire.messages import Event, Message, Replies, Result

PROBLEM = ("--statistic", "kendall", "--levels", "4x4", "--epsilon", "4", "--protocol", "three-round")
# As the fixture `finished`, but shared by more nodes: who hosts a user changes no byte.
RUN = ("run", *PROBLEM, "--users", "301", "--processes", "3", "--seed", "7", "--quiet")
COMMAND = (sys.executable, "-m", "parley.launch.cli")
# One node answers late in every round, so that a round is open long enough to be hit.
SLOW = '[[fault]]\nkind = "delay"\nnodes = "node-2"\ndirection = "up"\nmessages = ["replies"]\nseconds = 1.0\n'


def recorded(folder: Path) -> list[Message]:
    return [record.message for record in TranscriptReader(folder / "transcript.parley")]


def replies(messages: Iterable[Message]) -> dict[tuple[int, int], bytes]:
    """Each reply's bytes by (round, user); nobody answers a round twice."""
    found: dict[tuple[int, int], bytes] = {}
    for message in messages:
        if isinstance(message, Replies):
            for row, user in enumerate(message.users):
                assert (message.round, int(user)) not in found
                reply = b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
                found[message.round, int(user)] = reply
    return found


def estimates(messages: Iterable[Message]) -> list[float]:
    return [message.estimate for message in messages if isinstance(message, Result)]


def events(messages: Iterable[Message], *kinds: str) -> list[Event]:
    """Each once: on a busy machine the launcher says again what is slow to come on record."""
    said = [message for message in messages if isinstance(message, Event) and message.event in kinds]
    return list({(each.event, each.detail): each for each in said}.values())


def conditions(path: Path, *rules: str) -> Path:
    """A conditions file of these rules, each `kind nodes setting=value ...`."""
    text = [SLOW]
    for rule in rules:
        kind, nodes, *settings = rule.split()
        lines = [f'kind = "{kind}"', f'nodes = "{nodes}"', *(each.replace("=", " = ", 1) for each in settings)]
        text.append("\n".join(["[[fault]]", *lines]) + "\n")
    path.write_text("\n".join(text))
    return path


def check_undisturbed(folder: Path, finished: Path) -> list[Message]:
    """The replies and the estimate of the run in which nothing happened."""
    messages, expected = recorded(folder), recorded(finished)
    assert replies(messages) == replies(expected)
    assert estimates(messages) == estimates(expected)
    assert not [event for event in events(messages, "drop") if "other bytes" in event.detail]
    return messages
