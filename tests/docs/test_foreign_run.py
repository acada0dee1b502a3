"""docs/examples/foreign_node.py takes part in signed runs between real processes, byte for byte as a Parley node."""

import time
from collections.abc import Callable
from pathlib import Path

import zmq

from parley.emulator.audit.report import audit
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.wire.codec import encode, said_by
from parley.emulator.wire.messages import Announce, Close, Event, Ready, Refusal, Replies, Seating, Setup
from parley.emulator.wire.security import read_trust
from parley.nodes.state.user_state import State
from parley.protocols.factorization.factors import exact
from parley.protocols.paper.one_round import OneRound
from parley.protocols.planning.families.paper import with_factors
from parley.protocols.registry import build, design
from parley.protocols.workloads.choice import make_workload
from tests.docs.foreign import FOREIGN, RUN, SECONDS, Table, all_ended, play


def test_the_foreign_node_takes_part(played: Table) -> None:
    """Beside two real nodes, in a signed run; and Parley finds its state whole, its run over."""
    assert {record.sender for record in played.heard(Replies)} == set(played.cohorts)
    (close,) = played.heard(Close)
    assert isinstance(close.message, Close)
    assert (close.message.missing, close.message.absent) == (0, ())
    with State(played.folder / FOREIGN) as state:
        assert state.memory.finished == {RUN}


def test_started_again_after_the_end_it_says_nothing(played: Table) -> None:
    process = played.user(FOREIGN, foreign=True)
    with all_ended([process]):
        assert process.communicate(timeout=SECONDS)[0] == ""
    assert process.returncode == 0


def test_the_audit_passes(played: Table) -> None:
    keys = read_trust(played.folder / "trust.toml")
    report = audit(played.transcript, build, witness=played.witness, keys=keys)
    verdicts = {name: each.verdict for name, each in report.verdicts.items()}
    # Nobody is missing and frames are few: nothing could depend on the inputs.
    assert verdicts.pop("side_channels") == "unknown"
    assert verdicts == dict.fromkeys(verdicts, "pass")
    assert report.record()["privacy"]["users"] == played.users


def test_its_reply_is_byte_for_byte_that_of_parley(played: Table) -> None:
    check_bytes(played)


def check_bytes(table: Table) -> None:
    """A Parley node with the same state and inputs says exactly what is on record of the foreign one."""
    identity, frames = table.identity(FOREIGN), list[bytes]()
    role = CohortRole(
        node=FOREIGN,
        first=identity.first,
        inputs=table.inputs_of(FOREIGN),
        key=identity.coin_key,
        consent=identity.consent,
        build=build,
        signer=identity.signer,
    )
    for record in table.records():
        if isinstance(record.message, Setup):
            seat = Seating(run=record.message.run, node=FOREIGN, key=role.public, nonce=record.message.nonce)
            list(role.hear(seat))
        if isinstance(record.message, Setup | Announce):
            frames += [role.frame(said) for said in role.hear(record.message) if isinstance(said, Replies)]
    assert frames == [record.frame for record in table.heard(Replies) if record.sender == FOREIGN]


def test_a_codebook_protocol_over_encrypted_links(tmp_path: Path) -> None:
    # For so few users a design would take other factors than the statistic's own, which the foreign node knows.
    workload = make_workload("gini-diversity", "5", None)
    protocol = with_factors(OneRound, workload, 2.0, 9, exact(workload))
    table = Table(folder=tmp_path, protocol=protocol, cohorts={FOREIGN: 4, "node-0": 5}, secure=True)
    play(table)
    check_bytes(table)
    assert audit(table.transcript, build, witness=table.witness).ok


def test_it_refuses_what_its_users_did_not_agree_to(tmp_path: Path) -> None:
    protocol = design("frequency-grr", make_workload("gini-diversity", "5", None), epsilon=2.0, users=9)
    table = Table(folder=tmp_path, protocol=protocol, cohorts={FOREIGN: 9}, cap=1.0)
    started = [table.board("--deadline", 1)]
    with all_ended(started):
        table.await_board(started[0])
        started += [table.analyst(), table.user(FOREIGN, foreign=True)]
        for each in started:
            each.communicate(timeout=SECONDS)
    (refusal,) = table.heard(Refusal)
    assert isinstance(refusal.message, Refusal)
    assert (refusal.message.round, refusal.sender) == (0, FOREIGN)
    assert "above the cap 1.0" in refusal.message.reason
    assert said_by(table.signers[FOREIGN].public, refusal.frame, refusal.message, b"")
    assert table.heard(Replies) == []


def test_killed_and_started_again_it_says_the_same_bytes(tmp_path: Path) -> None:
    """Killed when its reply is on record, it comes back, answers nothing anew and leaves with its receipt."""
    protocol = design("frequency-grr", make_workload("gini-diversity", "5", None), epsilon=2.0, users=9)
    table = Table(folder=tmp_path, protocol=protocol, cohorts={FOREIGN: 4, "node-0": 5})
    started = [table.board()]
    with all_ended(started):
        inbox = table.await_board(started[0])["inbox"]
        started += [table.analyst(), first := table.user(FOREIGN, foreign=True)]
        # The other node is there and says nothing, so that the round stays open.
        send(inbox, encode(ready_of(table, "node-0"), table.signers["node-0"]))
        until(lambda: table.transcript.exists() and bool(table.heard(Replies)))
        first.kill()
        started.append(again := table.user(FOREIGN, foreign=True))
        until(lambda: any(each.message.node == FOREIGN for each in table.heard(Event)))  # type: ignore[attr-defined]
        started.append(table.user("node-0", foreign=False))
        for each in (started[0], again, started[-1]):
            said = each.communicate(timeout=SECONDS)[0]
            assert each.returncode == 0, said
    assert len([record for record in table.heard(Replies) if record.sender == FOREIGN]) == 1
    check_bytes(table)


def ready_of(table: Table, name: str) -> Ready:
    key = table.signers[name].public
    return Ready(node=name, first=table.first_of(name), users=table.cohorts[name], pid=1, run=RUN, key=key)


def send(address: str, frame: bytes) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        socket.send(frame)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
