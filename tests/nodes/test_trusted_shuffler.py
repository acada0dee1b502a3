"""Users who trust a shuffler speak to that shuffler alone: real nodes over real sockets, and servers that pretend."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed, setup_digest
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Analysis, Protocol
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BROADCAST, NodePort
from parley.emulator.transport.zmq.ports import ZmqBoardPort, connect_node, open_board
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.codec import decode, encode, envelope
from parley.emulator.wire.messages import Abort, Announce, Message, Pledge, Replies, Seating, Setup
from parley.emulator.wire.security import Security, write_allowed, write_keys
from parley.emulator.wire.signatures import Signer, derived
from parley.nodes.common import UNFINISHED, BoardLink
from parley.nodes.state.user_state import Identity, State
from parley.nodes.user import _connect, serve_user
from parley.protocols.registry import design
from parley.protocols.workloads.kendall import Kendall

RUN = "trusted"
USERS = 200
NONCE = bytes(range(16))
ANALYST, BOARD, SHUFFLER = (derived(bytes(32), name) for name in ("analyst", "board", "shuffler"))


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    return design("split-and-mix", Kendall(levels=(3, 3)), epsilon=1.0, users=USERS, delta=1e-6)


def setup(protocol: Protocol, **changes: Any) -> Setup:
    claim = protocol.claim
    fields = {"run": RUN, "protocol": protocol.name, "parameters": protocol.parameters(), "epsilon": claim.epsilon}
    fields |= {"delta": claim.delta, "rounds": claim.rounds, "version": protocol.version, "nonce": NONCE}
    return Setup(**{**fields, "domain": domain_of(protocol.inputs), **changes})


def identity(protocol: Protocol, **changes: Any) -> Identity:
    claim = protocol.claim
    agreed: dict[str, Any] = {
        "run": RUN,
        "domain": domain_of(protocol.inputs),
        "cap": claim.epsilon,
        "delta": claim.delta,
        "trusts": "shuffler",
        "analyst": ANALYST.public,
        "board": BOARD.public,
        "shuffler": SHUFFLER.public,
    }
    key = derived(bytes(32), "node-0").secret
    consent = Consent(**{**agreed, **changes})
    return Identity(node="node-0", first=0, users=USERS, consent=consent, coin_key=key_from_seed(1), signing_key=key)


def pledge(of: Setup, signer: Signer | None = SHUFFLER) -> bytes:
    return encode(Pledge(run=of.run, setup=setup_digest(of)), signer)


async def converse(folder: Path, protocol: Protocol, pledges: Iterable[bytes]) -> list[Message]:
    """All that a node says to a server which has the analyst's and the board's words and these pledges."""
    State.create(folder, identity(protocol), durable=False)
    port = open_board(BoardAddresses.on())
    inputs = np.arange(USERS, dtype=np.int64) % 9
    asked = setup(protocol)
    own = identity(protocol).signer
    assert own is not None
    words = [
        encode(Seating(run=RUN, node="node-0", key=own.public, nonce=NONCE), SHUFFLER),
        *pledges,
        encode(asked, ANALYST, NONCE),
        encode(Announce(run=RUN, round=1, broadcast=Analysis(protocol).open(), speakers=USERS), ANALYST, NONCE),
        # The feed keeps its order: who has heard this has heard everything before it.
        encode(Abort(run=RUN, outcome="failed", reason="enough", nonce=NONCE), BOARD),
    ]
    try:
        with State(folder, durable=False) as state:
            node = asyncio.create_task(serve_user(state, inputs, lambda name: connect_node(port.addresses)))
            async with asyncio.timeout(60):
                while not port.subscribers:
                    await asyncio.sleep(0.01)
                for word in words:
                    port.publish(BROADCAST, envelope(0, "board", word))
                assert await node == UNFINISHED
            return await posted(port)
    finally:
        port.close()


async def posted(port: ZmqBoardPort) -> list[Message]:
    messages = []
    while batch := await port.receive(timeout=0.3):
        messages += [decode(received.frame) for received in batch]
    return messages


async def test_a_node_speaks_after_the_shufflers_word_for_this_setup(tmp_path: Path, protocol: Protocol) -> None:
    said = await converse(tmp_path / "state", protocol, [pledge(setup(protocol))])
    assert sum(len(each.users) for each in said if isinstance(each, Replies)) == USERS


PRETENDERS = {
    "a board without a shuffler": lambda asked: [],
    "no signature": lambda asked: [pledge(asked, None)],
    "the board's signature": lambda asked: [pledge(asked, BOARD)],
    "the analyst's signature": lambda asked: [pledge(asked, ANALYST)],
    "another shuffler's signature": lambda asked: [pledge(asked, derived(bytes(32), "shuffler-2"))],
    "the pledge of another run": lambda asked: [pledge(Setup(**{**vars(asked), "run": "other"}))],
    "the pledge of the same run with another nonce": lambda asked: [
        pledge(Setup(**{**vars(asked), "nonce": bytes(16)}))
    ],
    "the pledge of another setup": lambda asked: [pledge(Setup(**{**vars(asked), "epsilon": 0.5}))],
    "a pledge that was taken back": lambda asked: [pledge(asked), pledge(Setup(**{**vars(asked), "run": "other"}))],
}


@pytest.mark.parametrize("how", PRETENDERS)
async def test_a_node_says_nothing_but_that_it_is_there(tmp_path: Path, protocol: Protocol, how: str) -> None:
    said = await converse(tmp_path / "state", protocol, PRETENDERS[how](setup(protocol)))
    assert {each.kind for each in said} == {"ready"}


def link(folder: Path, name: str, public: str) -> BoardLink:
    """As it is typed: our own pair, and a file with a key under a name."""
    folder.mkdir()
    write_keys(folder / "node.secret", make_keys())
    write_allowed(folder / "server.public", {public: name})
    where = dict.fromkeys(("inbox", "feed", "delivery"), "tcp://127.0.0.1:9")
    return BoardLink(keys=folder / "node.secret", board_key=folder / "server.public", **where)  # type: ignore[arg-type]


def test_only_the_shufflers_key_under_the_shufflers_name_is_connected_to(tmp_path: Path, protocol: Protocol) -> None:
    shuffler, board = make_keys().public, make_keys().public
    pinned, unpinned = identity(protocol, shuffler_link=shuffler), identity(protocol)
    wrong = {"board": board, "shuffler": board, "relay-0": shuffler}
    for number, (name, key) in enumerate(wrong.items()):
        with pytest.raises(BadInput, match="speak only to the shuffler"):
            _connect(link(tmp_path / str(number), name, key), pinned, 0.5).close()
    with pytest.raises(BadInput, match="speak only to the shuffler"):
        _connect(link(tmp_path / "same key", "board", shuffler), pinned, 0.5).close()
    with pytest.raises(BadInput, match="speak only to the shuffler"):
        _connect(link(tmp_path / "unpinned", "board", board), unpinned, 0.5).close()
    with pytest.raises(BadInput, match="speak only to the shuffler"):
        _connect(
            BoardLink(inbox="tcp://127.0.0.1:9", feed="tcp://127.0.0.1:9", delivery="tcp://127.0.0.1:9"), pinned, 0.5
        ).close()
    _connect(link(tmp_path / "right", "shuffler", shuffler), pinned, 0.5).close()


async def test_a_server_with_the_boards_key_hears_nothing(tmp_path: Path, protocol: Protocol) -> None:
    """It has every word, the shuffler's pledge too, and lets the node in; CURVE keeps the node from it."""
    shuffler, board, own = make_keys(), make_keys(), make_keys()
    for name, server in (("impostor", board), ("shuffler", shuffler)):
        State.create(tmp_path / name, identity(protocol, shuffler_link=shuffler.public), durable=False)
        port = open_board(BoardAddresses.on(), Security(keys=server, allowed={own.public: "node-0"}))
        node = connect_node(port.addresses, Security(keys=own, server=shuffler.public))
        with State(tmp_path / name, durable=False) as state:
            said = await hear_out(port, state, node, protocol)
        assert bool(said) == (name == "shuffler")


async def hear_out(port: ZmqBoardPort, state: State, connected: NodePort, protocol: Protocol) -> list[Message]:
    """What comes in two seconds, in which the words are said again and again."""
    serving = asyncio.create_task(serve_user(state, np.zeros(USERS, np.int64), lambda name: connected))
    asked, said = setup(protocol), list[Message]()
    try:
        for _ in range(20):
            for word in (pledge(asked), encode(asked, ANALYST, NONCE)):
                port.publish(BROADCAST, envelope(0, "shuffler", word))
            said += [decode(received.frame) for received in await port.receive(timeout=0.1)]
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        port.close()
    return said
