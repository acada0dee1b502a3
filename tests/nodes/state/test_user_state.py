"""The state of a node: on disk before an answer, whole or refused, and one answer for each user over all restarts."""

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.errors import BadInput, LocalProtocolError, ParleyError, RemoteProtocolError
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.node_memory import Answered, Commit, Evidence, Finished, Memory, Seated
from parley.emulator.transport.ports import NodePort
from parley.emulator.wire.codec import decode
from parley.emulator.wire.messages import Announce, Message, Replies, Result
from parley.emulator.wire.signatures import derived
from parley.nodes.common import BAD_INPUT, GOOD
from parley.nodes.state.user_state import FILE, MAGIC, Identity, State, load_evidence, save_evidence
from parley.nodes.user import serve_user
from parley.protocols.registry import build
from tests.emulator.samples import INPUTS, KEY, RUN, consent, setup
from tests.nodes.failing import FAULTS, FailingDisk, Killed, on
from tests.nodes.table import done, entries

ROOT = Path(__file__).parents[3]
ZERO, OTHER = np.zeros(2), np.full(2, 0.25)
RESULT = Result(run=RUN, estimate=0.5, predicted_rmse=0.1, low=0.3, high=0.7, replied=10)
IDENTITY = Identity(
    node="n",
    first=0,
    users=len(INPUTS),
    consent=consent(),
    coin_key=KEY,
    signing_key=derived(KEY, "n").secret,
)


def announces(mu: np.ndarray) -> list[Message]:
    arrays = ({}, {"mu": mu}, {"mu": mu, "Y": mu})
    return [Announce(run=RUN, round=number, broadcast=each) for number, each in enumerate(arrays, 1)]


HONEST: list[Message] = [setup(), *announces(ZERO), RESULT]
# After the restart somebody asks something else, in the same run and in one with another nonce.
LYING: list[Message] = [setup(nonce=bytes(16)), *announces(OTHER), setup(), *announces(OTHER), *announces(ZERO), RESULT]
WHOLE = ["seated", 1, 2, 3, "finished"]


class Wire:
    """What left a node over all its lives: every user answers each round with one reply, whatever happens."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.replies: dict[tuple[str, int, int], tuple[bytes, bytes]] = {}

    def send(self, frame: bytes) -> None:
        self.frames.append(frame)
        message = decode(frame)
        if isinstance(message, Replies):
            for row, user in enumerate(message.users):
                place = message.run, message.round, int(user)
                reply = b"".join(message.columns[name][row].tobytes() for name in sorted(message.columns))
                assert self.replies.setdefault(place, (message.question, reply)) == (message.question, reply)

    @property
    def rounds(self) -> set[int]:
        return {number for _, number, _ in self.replies}


def role_of(state: State) -> CohortRole:
    mine = state.identity
    return CohortRole(
        node=mine.node,
        first=mine.first,
        inputs=INPUTS,
        key=mine.coin_key,
        consent=mine.consent,
        build=build,
        memory=state.memory,
        signer=mine.signer,
        chunk=4,
    )


def live(folder: Path, script: Iterable[Message], wire: Wire, disk: FailingDisk | None = None) -> None:
    """One life of a node: what the driver does, without sockets. Refusals do not end it."""
    with on(disk or FailingDisk()) as used, State(folder, disk=used) as state:
        role = role_of(state)
        for message in script:
            try:
                for said in role.hear(message):
                    if isinstance(said, Message):
                        wire.send(role.frame(said))
                    else:
                        assert not isinstance(said, Evidence)
                        state.write(said)
            except RemoteProtocolError:
                continue


def outcome(act: Callable[[], None]) -> BaseException | None:
    """How it ended, if not well."""
    try:
        act()
    except (Killed, ParleyError, OSError) as error:
        return error
    return None


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    State.create(tmp_path / "state", IDENTITY)
    return tmp_path / "state"


def honest_calls(folder: Path) -> list[str]:
    """The calls of a life in which nothing goes wrong."""
    copy, disk = folder.with_name("counted"), FailingDisk()
    shutil.copytree(folder, copy)
    live(copy, HONEST, Wire(), disk)
    shutil.rmtree(copy)
    return disk.calls


def test_a_life_is_written_down_as_it_goes(fresh: Path) -> None:
    wire = Wire()
    live(fresh, HONEST, wire)
    assert done(fresh) == WHOLE
    assert wire.rounds == {1, 2, 3}
    assert len(wire.replies) == 3 * len(INPUTS)
    assert honest_calls(fresh)[:4] == ["open", "lock", "read", "read"]


def test_every_commitment_is_synced_before_anything_is_sent(fresh: Path) -> None:
    calls = honest_calls(fresh)
    assert calls[4:] == ["write", "sync"] * len(WHOLE) + ["close"]


@pytest.mark.parametrize("after", ["honest", "lying"])
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_call_fails_nobody_answers_twice(fresh: Path, fault: str, after: str) -> None:
    """Every call of a life in turn; then lives on a good disk, in which other things are asked."""
    later = HONEST if after == "honest" else LYING
    calls = honest_calls(fresh)
    for place, call in enumerate(calls):
        folder = fresh.with_name(f"{place}")
        shutil.copytree(fresh, folder)
        wire, disk = Wire(), FailingDisk(place, fault)
        # The commitments whose write had returned before this call, and the round that was under way.
        kept = (place - 4) // 2
        failed = outcome(lambda: live(folder, HONEST, wire, disk))  # noqa: B023
        assert disk.struck
        assert not isinstance(failed, OSError) or call == "close"
        if failed and call in ("write", "sync"):
            assert wire.rounds == {number for number in WHOLE[:kept] if isinstance(number, int)}, "a failed write spoke"
        if call not in ("write", "sync", "close") and fault not in ("short write", "torn write", "killed within"):
            assert wire.frames == []
        for _ in range(2):
            before = (folder / FILE).read_bytes()
            refusal = outcome(lambda: live(folder, later, wire))  # noqa: B023
            if refusal is not None:
                assert isinstance(refusal, BadInput)
                assert "cut or altered" in str(refusal)
                assert (fault, call) == ("killed within", "write")
                assert (folder / FILE).read_bytes() == before
        if not (fault == "killed within" and call == "write"):
            assert done(folder) == WHOLE
            assert wire.rounds == {1, 2, 3}
        shutil.rmtree(folder)


@pytest.mark.parametrize("also", ["good", "bad"])
@pytest.mark.parametrize("fault", ["no space", "input/output error", "torn write"])
def test_after_a_failed_write_a_state_writes_nothing_more(fresh: Path, fault: str, also: str) -> None:
    """Even if the part that was written cannot be taken back."""
    for call in (4, 5):
        folder = fresh.with_name(f"{call}")
        shutil.copytree(fresh, folder)
        disk = FailingDisk(call, fault)
        if also == "bad":
            disk.truncate = lambda *_: (_ for _ in ()).throw(OSError(5, "no"))  # type: ignore[method-assign]
        with on(disk), State(folder, disk=disk) as state:
            for reason in ("cannot be written", "failed before", "failed before"):
                with pytest.raises(LocalProtocolError, match=reason) as caught:
                    state.write(Seated(run=RUN, digest=bytes(32), nonce=bytes(16)))
                assert "\n" not in str(caught.value)
        if also == "good" or (call == 4 and fault != "torn write"):
            assert done(folder) == []
        elif call == 4:
            with pytest.raises(BadInput, match="cut or altered"):
                State(folder)
        else:
            assert done(folder) == ["seated"], "more than was acted upon is remembered, which does no harm"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_state_is_made_whole_or_not_at_all(tmp_path: Path, fault: str) -> None:
    counted = FailingDisk()
    State.create(tmp_path / "counted", IDENTITY, disk=counted)
    assert counted.calls == ["make folder", "open", "write", "sync", "link", "close", "unlink", "sync folder"]
    for place in range(len(counted.calls)):
        folder, disk = tmp_path / f"{place}", FailingDisk(place, fault)
        with on(disk):
            failed = outcome(lambda: State.create(folder, IDENTITY, disk=disk))  # noqa: B023
        assert disk.struck
        assert isinstance(failed, Killed | None) or "state cannot be made" in str(failed)
        if not (folder / FILE).exists():
            State.create(folder, IDENTITY)
        with State(folder) as state:
            assert state.identity == IDENTITY
            assert state.memory == Memory()
        assert os.stat(folder / FILE).st_mode & 0o777 == 0o600


def test_a_state_is_never_written_over(fresh: Path) -> None:
    before = (fresh / FILE).read_bytes()
    with pytest.raises(BadInput, match="already exists; a state is never overwritten"):
        State.create(fresh, IDENTITY)
    assert (fresh / FILE).read_bytes() == before
    assert [path.name for path in fresh.iterdir()] == [FILE]


COMMITS: list[Commit] = [
    Seated(run="one", digest=bytes([1] * 32), nonce=bytes([1] * 16)),
    Answered(round=1, question=bytes([2] * 32), announce=b"frame"),
    Answered(round=2, question=bytes([3] * 32), announce=b"another", size=9, root=bytes([4] * 32)),
    Finished(run="one"),
    Seated(run="two", digest=bytes([5] * 32), nonce=bytes([6] * 16)),
    Answered(round=1, question=bytes([7] * 32), announce=b""),
]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("count", range(len(COMMITS) + 1))
def test_what_was_written_is_remembered(fresh: Path, count: int, durable: bool) -> None:
    expected = Memory()
    for commit in COMMITS[:count]:
        with State(fresh, durable=durable) as state:
            state.write(commit)
        expected.note(commit)
    with State(fresh) as state:
        assert state.memory == expected
        assert state.identity == IDENTITY


def written(folder: Path) -> bytes:
    with State(folder) as state:
        for commit in COMMITS:
            state.write(commit)
    return (folder / FILE).read_bytes()


class NoPort:
    """Nobody is contacted."""

    def __call__(self, node: str) -> NodePort:
        raise AssertionError(f"{node} spoke")


def refused(folder: Path, *reasons: str) -> None:
    """One sentence, and nothing on the wire."""
    with pytest.raises(BadInput) as caught, State(folder) as state:
        asyncio.run(serve_user(state, INPUTS, NoPort()))
    assert "\n" not in str(caught.value)
    assert any(reason in str(caught.value) for reason in reasons), str(caught.value)
    assert KEY.hex() not in str(caught.value)
    assert repr(KEY) not in str(caught.value)


def test_a_missing_state_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "there is no state at", "parley node init")
    refused(tmp_path / "nowhere", "there is no state at")
    (tmp_path / "folder" / FILE).mkdir(parents=True)
    refused(tmp_path / "folder", "cannot be opened")


def boundaries(content: bytes) -> list[int]:
    found = [len(MAGIC)]
    while found[-1] < len(content):
        found.append(found[-1] + 4 + int.from_bytes(content[found[-1] : found[-1] + 4], "little") + 32)
    return found


def test_a_state_cut_at_any_byte_is_refused_or_is_an_earlier_one(fresh: Path) -> None:
    """Between two entries a cut leaves what once was the state: that nobody can tell from the file alone.

    A question already answered gets the same bytes again from it; another one in a round that is on record is found
    out by the board's receipts (tests/emulator/roles/test_cohort.py).
    """
    content = written(fresh)
    whole = boundaries(content)
    assert whole[-1] == len(content)
    assert len(whole) == len(COMMITS) + 2
    for length in range(len(content)):
        (fresh / FILE).write_bytes(content[:length])
        if length in whole[1:]:
            with State(fresh) as state:
                expected = Memory()
                for commit in COMMITS[: whole.index(length) - 1]:
                    expected.note(commit)
                assert state.memory == expected
        else:
            refused(fresh, "is not a node's state", "is cut or altered at byte", "is not a valid state of a node")
            assert (fresh / FILE).read_bytes() == content[:length], "what is refused is not repaired"


def test_a_state_altered_at_any_byte_is_refused(fresh: Path) -> None:
    content = written(fresh)
    for place in range(len(content)):
        for flip in (0x01, 0x80):
            altered = content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :]
            (fresh / FILE).write_bytes(altered)
            refused(fresh, "is not a node's state", "is cut or altered at byte")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PARLEY",
        MAGIC,
        b"PARLEYS1" + bytes(100),
        b"PARLEY\r\n\x02\x00" + bytes(100),
        b'{"run": "r", "round": 1}\n',
        MAGIC + bytes(100),
        MAGIC + b"\xff" * 100,
    ],
)
def test_a_foreign_file_is_refused(fresh: Path, content: bytes) -> None:
    (fresh / FILE).write_bytes(content)
    refused(fresh, "is not a node's state", "is cut or altered at byte 8", "is not a valid state of a node")


def test_entries_of_another_state_do_not_fit(tmp_path: Path) -> None:
    """Each entry holds the hash of all before it, so that nothing can be moved from one state into another."""
    contents = []
    for number in range(2):
        identity = Identity(**{**vars(IDENTITY), "coin_key": bytes([number] * 32)})
        State.create(tmp_path / f"{number}", identity)
        contents.append(written(tmp_path / f"{number}"))
    ends = [boundaries(content)[1] for content in contents]
    assert ends[0] == ends[1]
    (tmp_path / "0" / FILE).write_bytes(contents[0][: ends[0]] + contents[1][ends[1] :])
    refused(tmp_path / "0", f"cut or altered at byte {ends[0]}")


def test_a_state_that_others_can_read_is_refused(fresh: Path) -> None:
    for mode in (0o640, 0o604, 0o660, 0o666):
        (fresh / FILE).chmod(mode)
        refused(fresh, "others can read")
    (fresh / FILE).chmod(0o600)
    State(fresh).close()


def test_a_state_in_use_is_refused(fresh: Path) -> None:
    with State(fresh):
        refused(fresh, "is in use by another process")
    State(fresh).close()
    with (fresh / FILE).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        refused(fresh, "is in use by another process")


def test_a_process_says_one_sentence_and_leaves(fresh: Path, tmp_path: Path) -> None:
    """The command itself: no connection is made, nothing is written, the exit code is that of bad input."""
    np.save(tmp_path / "inputs.npy", INPUTS)
    nowhere = "tcp://127.0.0.1:1"
    command = [sys.executable, "-m", "parley.nodes.user", "--inbox", nowhere, "--feed", nowhere, "--delivery", nowhere]
    command += ["--inputs", str(tmp_path / "inputs.npy"), "--state"]
    with State(fresh):
        said = subprocess.run([*command, str(fresh)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert said.returncode == BAD_INPUT
    assert said.stdout == ""
    assert said.stderr == f"parley: the state {fresh / FILE} is in use by another process\n"


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (INPUTS[:-1], "there are 9 inputs for the 10 users of this state"),
        (INPUTS + 1, "an input is outside 0..2"),
        (INPUTS - 1, "an input is outside 0..2"),
    ],
)
def test_inputs_that_were_not_agreed_to_are_refused_before_anybody_is_contacted(
    fresh: Path, inputs: np.ndarray, reason: str
) -> None:
    """Later it would be too late: a node that stops during the run has told that its input is a strange one."""
    with pytest.raises(BadInput, match=reason), State(fresh) as state:
        asyncio.run(serve_user(state, inputs, NoPort()))


def test_a_node_whose_run_is_over_says_nothing_more(fresh: Path) -> None:
    live(fresh, HONEST, Wire())
    with State(fresh) as state:
        assert asyncio.run(serve_user(state, INPUTS, NoPort())) == GOOD


@pytest.mark.parametrize("rounds", range(4))
def test_a_copied_state_gives_the_same_bytes_for_the_same_question(fresh: Path, rounds: int) -> None:
    """Two nodes from one state are as good as one: the same coins, the same signature, the same frames."""
    live(fresh, HONEST[: 1 + rounds], Wire())
    copy = fresh.with_name("copy")
    shutil.copytree(fresh, copy)
    wires = [Wire(), Wire()]
    for folder, wire in zip((fresh, copy), wires, strict=True):
        live(folder, HONEST[: 1 + min(3, rounds + 1)], wire)
    assert wires[0].frames == wires[1].frames != []
    assert entries(fresh) == entries(copy)


def test_an_identity_says_nothing_secret_of_itself() -> None:
    shown = repr(IDENTITY)
    for secret in (IDENTITY.coin_key, IDENTITY.signing_key):
        assert repr(secret) not in shown
        assert secret.hex() not in shown


@pytest.mark.parametrize(
    "changes",
    [{"node": "a b"}, {"node": ""}, {"first": -1}, {"users": 0}, {"coin_key": bytes(31)}, {"coin_key": b""}],
    ids=str,
)
def test_an_identity_of_nobody_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Identity(**{**vars(IDENTITY), **changes})  # type: ignore[arg-type]


def test_evidence_is_kept_and_read_back(tmp_path: Path) -> None:
    kept = Evidence(run=RUN, node="n", round=2, reason="so", close=b"close", frames=(b"one", b"two"))
    path = save_evidence(tmp_path, kept)
    assert load_evidence(path) == kept
    assert save_evidence(tmp_path, kept) == path
    content = path.read_bytes()
    for wrong in (b"", b"PARLEYS2", content[:-1], content + b"\0"):
        path.write_bytes(wrong)
        with pytest.raises(BadInput):
            load_evidence(path)
    with pytest.raises(BadInput):
        load_evidence(tmp_path / "none")
