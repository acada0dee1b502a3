"""No text of a stranger reaches the terminal as anything but visible characters on its own line."""

import io
import json
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress as Bars

from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.record.transcript import TranscriptReader, TranscriptWriter
from parley.emulator.wire.codec import encode, pack, unpack
from parley.emulator.wire.messages import MESSAGES, Abort, Message, Ready, Replies, Setup, Tally
from parley.launch.cli import sentence
from parley.launch.results.display.printable import printable, printable_json, printable_lines
from parley.launch.results.display.progress import Lines, Progress, RateColumn, Standing, Terminal, show_bar
from parley.launch.results.follow import Follower
from tests.emulator.audit.recordings import replace_first, rewrite
from tests.launch.conftest import Parley, Said
from tests.launch.record_edits import hidden, sorts
from tests.vectors.make import golden_path

NASTY = "a\x1b[2Jb\nc\rd\x00e\x7ff\x9b31mg\x85h\u2028i\u2029j\u202ek\u2066l\u200em"
SHOWN = r"a\x1b[2Jb\nc\rd\x00e\x7ff\x9b31mg\x85h\u2028i\u2029j\u202ek\u2066l\u200em"  # as a person reads it
GOLDEN = golden_path("three-round")
TEXT = st.text(st.characters() | st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]))


def clean(said: Said) -> None:
    assert hidden(said.out) == hidden(said.err) == ""


def test_what_is_invisible_becomes_an_escape() -> None:
    assert printable(NASTY) == SHOWN
    assert printable("\ud800 \U000e0041") == r"\ud800 \U000e0041"
    assert printable("Zoë, 数, C:\\new") == "Zoë, 数, C:\\new"


@given(TEXT)
def test_nothing_invisible_is_left(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert (shown == text) == text.isprintable()
    assert len(printable_lines(text).split("\n")) == len(text.split("\n"))
    printed = printable_json({"text": text, text: 1}, indent=2)
    assert hidden(printed) == ""
    assert json.loads(printed) == json.loads(json.dumps({"text": text, text: 1}))


def test_json_describes_what_it_cannot_hold() -> None:
    assert json.loads(printable_json({"a": (np.zeros((2, 3)), b"bytes")})) == {"a": ["float64 (2, 3)", "bytes"]}


def test_errors_of_every_command() -> None:
    said = sentence(BadInput(NASTY))
    assert hidden(said) == ""
    assert r"\x1b[2J" in said


def note_makers(stream: io.StringIO) -> list[Progress]:
    return [Progress(stream), Lines(stream), Terminal(Console(file=stream, width=500, force_terminal=False))]


@pytest.mark.parametrize("place", range(3))
def test_notes_keep_only_our_own_lines(place: int) -> None:
    stream = io.StringIO()
    note_makers(stream)[place].note(f"node-0 died; its log ends with:\n    :skull: [red]{NASTY.replace(chr(10), '')}")
    shown = SHOWN.replace("\\n", "")
    assert stream.getvalue() == f"node-0 died; its log ends with:\n    :skull: [red]{shown}\n"


def test_no_more_bars_than_rounds() -> None:
    with Terminal(Console(file=io.StringIO())) as progress:
        for number in (1, 2, 3, 4, 2**61):
            progress.show(Standing(nodes=1, users=1, declared=3, round=number))
        assert isinstance(progress, Terminal)
        assert len(progress.bars.tasks) == 4


def nasty_message(kind: type[Message]) -> Message:
    """A message of this kind with nasty text wherever it may hold any."""
    values: dict[str, Any] = {
        "name": "node-0",
        "text": NASTY,
        "choice": "failed",
        "int": 0,
        "float": 0.0,
        "users": np.arange(2),
        "arrays": {NASTY: np.zeros(2, np.int64)},
        "pairs": np.array([[0, 2]]),
        "numbers": {NASTY: 1},
        "tuples": {NASTY: ()},
        "bytes": b"",
        "texts": (NASTY,),
        "counts": (0,),
        "digests": (b"",),
        "plain": {NASTY: NASTY},
    }
    made = {name: values[sort] for name, sort in sorts(kind).items()}
    if kind is Ready:
        made["run"] = "r"
    if kind is Tally:
        made["rejected"] = {"node-0": 1}
    return kind(**{**made, "chunks": 1} if sorts(kind).get("chunks") == "int" else made)


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    """A record with a message of every kind, all of them nasty, closed for a nasty reason."""
    path = tmp_path / "nasty.parley"
    with TranscriptWriter.create(path, "nasty", note=NASTY) as writer:
        for kind in MESSAGES:
            writer.append("node-0", encode(nasty_message(kind)), 10**18)
        writer.close("failed", NASTY)
    return path


def test_show(parley: Parley, nasty: Path) -> None:
    said = parley("show", nasty)
    clean(said)
    lines = said.out.splitlines()
    assert len(lines) == 1 + len(MESSAGES) + 1
    assert lines[-1] == f"failed after {len(MESSAGES)} records: {SHOWN}"
    assert sum(line.endswith(f"reason {SHOWN}") for line in lines) == sum(
        any(each.name == "reason" for each in fields(kind)) for kind in MESSAGES
    )
    assert any(line.endswith(f"{SHOWN}: {SHOWN}, {SHOWN}") for line in lines)
    as_json = parley("show", nasty, "--json")
    clean(as_json)
    assert as_json.record["closing"]["reason"] == NASTY
    assert f"reason {NASTY}" in [each["what"] for each in as_json.record["records"]]


def test_the_other_commands(parley: Parley, nasty: Path, tmp_path: Path) -> None:
    for arguments in (
        ("export", nasty),
        ("export", nasty, "--out", tmp_path / f"{NASTY[2:8]}.jsonl"),
        ("diff", nasty, GOLDEN),
        ("diff", nasty, GOLDEN, "--json"),
        ("replay", nasty),
        ("replay", nasty, "--json"),
        ("report", nasty, "--out", tmp_path / "page\x1b.html"),
    ):
        said = parley(*arguments)
        clean(said)
        assert said.out + said.err
    assert hidden((tmp_path / "page\x1b.html").read_text().split('id="data">')[1].split("</script>")[0]) == ""


def test_a_difference_is_shown_on_one_line(parley: Parley, tmp_path: Path) -> None:
    def change(setup: Setup) -> Setup:
        return replace(setup, parameters={**setup.parameters, NASTY[:60]: NASTY})

    changed = rewrite(GOLDEN, tmp_path / "changed.parley", replace_first(Setup, change))
    said = parley("diff", changed, GOLDEN)
    assert said.code == 1
    assert len(said.out.splitlines()) == 4
    assert "\\u001b[2Jb\\nc" in said.out
    clean(said)
    clean(parley("replay", changed))


def spoilt(path: Path, out: Path) -> Path:
    """A record with a frame that is refused for the shape of a column with a nasty name."""
    with TranscriptWriter.create(out, "recorded") as writer:
        for record in TranscriptReader(path):
            frame = record.frame
            if isinstance(record.message, Replies):
                whole = unpack(encode(record.message)[:-4])
                values = [({NASTY[:60]: np.zeros(3)} if isinstance(each, dict) else each) for each in whole]
                body = pack(values)
                frame = body + zlib.crc32(body).to_bytes(4, "little")
            writer.append(record.sender, frame, record.time_ns)
        writer.close("completed")
    return out


@pytest.mark.parametrize(
    ("command", "code"),
    [("show", 1), ("export", 1), ("diff", 2), ("replay", 2), ("report", 0)],
    ids=lambda each: str(each),
)
def test_refusals_that_quote_a_name(parley: Parley, tmp_path: Path, command: str, code: int) -> None:
    path = spoilt(GOLDEN, tmp_path / "spoilt.parley")
    more = (GOLDEN,) if command == "diff" else ("--out", tmp_path / "page.html") if command == "report" else ()
    said = parley(command, path, *more)
    assert said.code == code
    clean(said)
    if command != "report":
        assert r"column a\x1b[2Jb" in said.err
        assert len(said.err.splitlines()) == 1
    else:
        assert r"column a\\x1b[2Jb\\nc" in (tmp_path / "page.html").read_text()


def test_the_reason_of_a_run_that_failed(nasty: Path) -> None:
    follower = Follower(nasty, Standing(nodes=1, users=1, declared=1))
    follower.summary.ending = Abort(run="nasty", outcome="failed", reason=NASTY)
    with pytest.raises(LocalProtocolError) as caught:
        follower.check_completed()
    assert str(caught.value).endswith(SHOWN)


def test_a_bar_shows_its_rate_in_what_it_counts() -> None:
    for units, shown in (({"privacy": "users"}, "1,024 users/s"), ({}, "0.0 MiB/s")):
        with Bars(RateColumn(units), console=Console(file=io.StringIO())) as bars:
            show_bar(bars, "privacy", 0, 4096)
            assert RateColumn(units).render(bars.tasks[0]).plain == ""
            bars.tasks[0].finished_speed = 1024.0
            assert RateColumn(units).render(bars.tasks[0]).plain == shown
