"""A user node with a wallet: who cannot afford a question is silent, says so, and tells nothing else by it."""

from collections.abc import Iterator

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Analysis, Inputs, Protocol
from parley.emulator.roles.analyst import AnalystRole
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to, domain_of
from parley.emulator.roles.node_memory import Memory
from parley.emulator.roles.wallet.entries import Terms, View
from parley.emulator.roles.wallet.wallet import Wallet
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Close, Event, Message, Replies, Result, Setup, silent_users
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity

USERS, INPUTS = 60, 4
KEY = key_from_seed(5)


def grr(epsilon: float = 0.5) -> Protocol:
    return design("frequency-grr", GiniDiversity(levels=INPUTS), epsilon=epsilon, users=USERS)


def wallet(cap: float = 1.2) -> Wallet:
    terms = Terms(users=USERS, mode="constant", cap=cap, delta_cap=0.0, inputs=INPUTS, domain=domain_of(INPUTS))
    return Wallet(terms, build)


def node(purse: Wallet, inputs: Inputs, run: str, memory: Memory | None = None) -> CohortRole:
    return CohortRole(
        node="n",
        first=100,
        inputs=inputs,
        key=KEY,
        consent=consent_to(grr(), run),
        build=build,
        memory=memory,
        wallet=purse,
        view=lambda setup: View(),
        chunk=16,
    )


def question(run: str, number: int) -> tuple[Setup, Announce]:
    protocol = grr()
    setup = Setup(
        run=run,
        protocol=protocol.name,
        parameters=protocol.parameters(),
        epsilon=0.5,
        delta=0.0,
        rounds=1,
        domain=domain_of(INPUTS),
        nonce=number.to_bytes(16, "little"),
    )
    return setup, Announce(run=run, round=1, broadcast=Analysis(protocol).open(), speakers=USERS)


def answers(role: CohortRole, words: tuple[Message, ...]) -> list[Message]:
    return [said for word in words for said in role.hear(word) if isinstance(said, Message)]


def speakers(said: list[Message]) -> list[int]:
    return [int(user) for each in said if isinstance(each, Replies) for user in each.users]


def runs(inputs: Inputs, purse: Wallet) -> Iterator[list[Message]]:
    for number in range(12):
        yield answers(node(purse, inputs, f"r{number}"), question(f"r{number}", number))


def test_who_cannot_afford_a_question_is_silent_and_is_counted() -> None:
    purse, refused = wallet(), 0
    for said in runs(np.arange(USERS) % INPUTS, purse):
        silent = sum(silent_users(each) for each in said if isinstance(each, Event))
        assert len(speakers(said)) + silent == USERS
        assert sum(isinstance(each, Replies) for each in said) == 4
        refused += silent
    assert 0 < refused < 12 * USERS
    assert purse.spent().loss.max() <= 1.2


def test_the_analyst_says_how_many_were_silent() -> None:
    analyst = AnalystRole(grr(), "r")
    for _, message in conversation(grr(), np.arange(USERS) % INPUTS, KEY, run="r"):
        if isinstance(message, Replies):
            silent = "17 users stay silent: their wallets refuse"
            analyst.hear(Event(event="wallet", node=message.node, round=1, detail=silent))
        said = analyst.hear(message)
        if isinstance(message, Close):
            break
    (result,) = said
    assert isinstance(result, Result)
    assert result.details["silent_for_wallets"] == 17
    assert "rejected" not in result.details


def test_refusing_follows_from_what_was_said_and_never_from_the_input() -> None:
    """Two cohorts that have said the same are asked the same: the same users are silent, whatever they hold."""
    first, second = wallet(), wallet()
    low, high = np.zeros(USERS, np.int64), np.full(USERS, INPUTS - 1)
    for number in range(8):
        setup, announce = question(f"r{number}", number)
        one = node(first, low, setup.run)
        said = answers(one, (setup, announce))
        other = node(second, high, setup.run)
        other_said = answers(other, (setup, announce))
        assert speakers(said) == speakers(other_said)
        assert [type(each) for each in said] == [type(each) for each in other_said]
        # Let the record of the second be that of the first: from here on they have said the same.
        second = wallet()
        replay(second, first)


def replay(to: Wallet, source: Wallet) -> None:
    """What one wallet has on its books, on another's."""
    for run in source.runs:
        state = source._runs[run]
        to.take(state.accepted)
        for asked in state.questions.values():
            to.take(asked.granted)
            places = np.flatnonzero(asked.said)
            if len(places):
                to.said(run, asked.granted.round, places, {name: each[places] for name, each in asked.columns.items()})


def test_a_second_life_says_the_same_bytes_and_pays_once() -> None:
    purse, inputs = wallet(), np.arange(USERS) % INPUTS
    for _ in runs(inputs, purse):
        pass
    words = question("again", 99)
    memory = Memory()
    first = answers(node(purse, inputs, "again", memory), words)
    spent = purse.spent().loss
    second = answers(node(purse, inputs, "again", memory), words)
    assert [vars(each).keys() for each in first] == [vars(each).keys() for each in second]
    for one, other in zip(first, second, strict=True):
        if isinstance(one, Replies) and isinstance(other, Replies):
            assert np.array_equal(one.users, other.users)
            assert all(np.array_equal(one.columns[name], other.columns[name]) for name in one.columns)
    assert np.array_equal(purse.spent().loss, spent)


def test_a_run_that_nobody_can_afford_is_refused() -> None:
    terms = Terms(users=USERS, mode="sum", cap=0.4, delta_cap=0.0, inputs=0, domain={})
    role = node(Wallet(terms, build), np.zeros(USERS, np.int64), "r")
    with pytest.raises(RemoteProtocolError, match="none of its users can afford"):
        list(role.hear(question("r", 1)[0]))
