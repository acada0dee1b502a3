"""Guards against costs that creep in. They bound ratios and sizes, never seconds, and generously.

What was measured when the bounds were set is in docs/performance.md; each bound is several times that.
"""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import growth, overhead, processes
from benchmarks.page import table, write_block

# A codebook reply holds 9 bytes, a scalar 4; frames, hashes and names come on top.
MOST_BYTES_A_REPLY = 24
# Whole runs take about as long as the bare work, for they start their processes faster.
MOST_OVERHEAD = 4
# Packing, sending twice, reading twice, hashing and writing, over randomizing and summing; in processor time.
MOST_MESSAGING = 0.25
# What a process of one user has for itself, in MiB.
MOST_OWN_MEMORY = 9


def test_a_run_costs_little_more_than_its_work() -> None:
    found = overhead.compare(users=6000, levels="8x8", processes=2, repeats=1)
    assert found.bytes_a_reply < MOST_BYTES_A_REPLY, found
    assert found.ratio < MOST_OVERHEAD, found
    assert found.board_replies_a_second > 0


def test_randomizing_and_not_messaging_is_what_replies_cost() -> None:
    found = growth.where("16x16", "three-round")
    assert found.replies == 3 * 2 * growth.CHUNK
    share = (found.wire + found.record) / (found.encode + found.decode)
    assert share < MOST_MESSAGING, found


def test_replies_of_public_coins_go_the_same_way() -> None:
    """`growth` counts on it. Every user speaks in one round, and what follows from its number does not travel."""
    found = growth.where("8x8", "two-round-tuned")
    assert found.replies == found.users == 2 * growth.CHUNK


def test_a_process_for_a_user_is_small() -> None:
    found = processes.measure(30, "4x4")
    assert len(found.rounds_seconds) == 3
    assert found.own_mebibytes < MOST_OWN_MEMORY, found


def test_growth_is_drawn(tmp_path: Path) -> None:
    """The figure of a few small runs; what the runs say is checked by the runs themselves."""
    runs = [growth.run(users, "4x4", 2) for users in (200, 400)]
    assert all(each.bytes_a_reply < MOST_BYTES_A_REPLY for each in runs)
    growth.figure(runs, runs, runs, tmp_path / "growth.svg")
    drawn = ElementTree.parse(tmp_path / "growth.svg").getroot()
    assert {"axes_1", "axes_2", "axes_3"} <= {each.get("id") for each in drawn.iter()}


def test_tables_replace_their_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
    write_block("a", table(("n", "seconds"), [(1000, 0.12345), (2, "x")]), page)
    assert page.read_text() == (
        "before\n<!-- a -->\n| n | seconds |\n|---|---|\n| 1,000 | 0.123 |\n| 2 | x |\n<!-- /a -->\nafter\n"
    )
    with pytest.raises(SystemExit, match="no block b"):
        write_block("b", "", page)
