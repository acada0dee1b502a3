"""The signing keys of a run: who signs with what, which of it is public, and the state of every user node."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace

from parley.emulator.roles.board import ANALYST_NAME, BOARD_NAME
from parley.emulator.roles.consent import Consent
from parley.emulator.roles.shards.boards import board_of
from parley.emulator.roles.shuffler import SHUFFLER_NAME
from parley.emulator.wire.security import read_signer, write_signer, write_trust
from parley.emulator.wire.signatures import SECRET_BYTES, Signer, derived
from parley.launch.cluster.keyring import Keyring
from parley.launch.cluster.layout import Layout
from parley.launch.results.folder import RunFolder
from parley.nodes.state.user_state import Identity, State

# A secret key for everybody who speaks on the record; nothing at all in a run without signatures.
Signers = Mapping[str, Signer]


def make_signers(layout: Layout) -> Signers:
    """Fresh keys, those of a folder, or in an experiment that is to be repeated those that follow from its key."""
    between = [SHUFFLER_NAME] if layout.shuffled else [*layout.shard_names, *map(board_of, layout.shard_names)]
    speakers = [ANALYST_NAME, BOARD_NAME, *between, *layout.nodes]
    if not layout.signed:
        return {}
    if layout.keys is not None:
        ring = Keyring(folder=layout.keys)
        return {name: read_signer(ring.signing(name)) for name in speakers}
    if layout.repeatable:
        return {name: derived(layout.key, name) for name in speakers}
    return {name: Signer(secrets.token_bytes(SECRET_BYTES)) for name in speakers}


def public_keys(signers: Signers) -> dict[str, bytes]:
    return {name: signer.public for name, signer in signers.items()}


def identities(layout: Layout, folder: RunFolder, signers: Signers, keyring: Keyring | None) -> Iterable[Identity]:
    """Who each user node is, and what its users agree to: this run, this domain, and what its protocol claims."""
    claim, public = layout.protocol.claim, public_keys(signers)
    consent = Consent(
        run=folder.run,
        domain=layout.meaning,
        cap=claim.epsilon,
        delta=claim.delta,
        trusts=claim.trusts,
        analyst=public.get(ANALYST_NAME, b""),
        board=public.get(BOARD_NAME, b""),
        shuffler=public.get(SHUFFLER_NAME, b""),
        shuffler_link=keyring.link_key(SHUFFLER_NAME) if keyring is not None and layout.shuffled else "",
    )
    for name, first, users in layout.cohorts():
        secret, agreed = signers[name].secret if name in signers else b"", consent
        if name in layout.shard_of and signers:
            # They speak to their shard's board, and the head board ties it to the whole run.
            shard = layout.shard_of[name]
            agreed = replace(consent, board=public[board_of(shard)], head=public[BOARD_NAME], shard=shard)
        yield Identity(node=name, first=first, users=users, consent=agreed, coin_key=layout.key, signing_key=secret)


def write_states(layout: Layout, folder: RunFolder, signers: Signers, keyring: Keyring | None) -> None:
    """Everything on disk that nodes sign with, and the public list that readers of the record check against."""
    if signers:
        write_trust(folder.trust, public_keys(signers))
    for name in (ANALYST_NAME, BOARD_NAME, SHUFFLER_NAME, *layout.shard_names, *map(board_of, layout.shard_names)):
        if name in signers:
            write_signer(folder.signing(name), signers[name])
    if layout.shuffled:
        folder.node_state(SHUFFLER_NAME).mkdir(mode=0o700)
    for identity in () if layout.elsewhere else identities(layout, folder, signers, keyring):
        State.create(folder.node_state(identity.node), identity, durable=False)
