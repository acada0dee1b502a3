"""What a board and an analyst who plot together may say to a node, under their true signatures."""

from collections.abc import Mapping, Sequence

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.errors import BadInput
from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.simulate import conversation
from parley.emulator.wire import messages as wire
from parley.emulator.wire.codec import encode, envelope
from parley.emulator.wire.signatures import Signer
from parley.launch.testkit.world.parties import RUN, Parties
from parley.launch.testkit.world.steps import FIRST_NODE, Company

OTHER_SEED = 61


def plotted(company: Company) -> dict[str, Mapping[int, Sequence[int]]]:
    """For each lie and each node the frames: another run under the same name, and another question in each round.

    The other questions are those of a run with other coins: an honest analyst might have asked them.
    """
    parties, names = company.parties, company.parties.names
    if parties.shuffled:
        raise BadInput("nobody knows yet how to lie through a shuffler; leave out lies")
    other = key_from_seed(OTHER_SEED)
    said = [
        message
        for _, message in conversation(parties.protocol, parties.inputs, other, run=RUN, nodes=parties.nodes)
        if isinstance(message, wire.Setup | wire.Announce)
    ]
    nonce = nonce_from_key(other)
    lies: dict[str, Mapping[int, Sequence[int]]] = {}
    another = [
        encode(said[0], _signer(parties, ANALYST_NAME), nonce),
        encode(said[1], _signer(parties, ANALYST_NAME), nonce),
    ]
    lies["another run of this name"] = {
        who: [_told(company, name, each) for each in (*_seating(parties, name, nonce), *another)]
        for who, name in enumerate(names, FIRST_NODE)
    }
    for announce in said[2:]:
        if isinstance(announce, wire.Announce):
            frame = encode(announce, _signer(parties, ANALYST_NAME), parties.nonce)
            lies[f"another question in round {announce.round}"] = {
                who: [_told(company, name, frame)] for who, name in enumerate(names, FIRST_NODE)
            }
    return lies


def _seating(parties: Parties, name: str, nonce: bytes) -> list[bytes]:
    if not parties.signed:
        return []
    seating = wire.Seating(run=RUN, node=name, key=parties.public[name], nonce=nonce)
    return [encode(seating, _signer(parties, BOARD_NAME), nonce)]


def _signer(parties: Parties, name: str) -> Signer | None:
    return parties.signers.get(name)


def _told(company: Company, name: str, frame: bytes) -> int:
    return company.parcel(name, envelope(0, BOARD_NAME, frame), is_lie=True).number
