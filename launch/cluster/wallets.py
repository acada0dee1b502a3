"""The wallets of a run's user nodes: one folder for a single node, one for each node where there are more."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

from parley.emulator.errors import BadInput
from parley.emulator.roles.wallet.entries import Terms
from parley.launch.cluster.layout import shares
from parley.nodes.state.wallet import StoredWallet


def wallets_in(folder: Path) -> list[Path]:
    """The wallets a folder holds: itself, or those of node-0, node-1, ..."""
    count = 0
    while (folder / f"node-{count}").is_dir():
        count += 1
    return [folder / f"node-{number}" for number in range(count)] or [folder]


def create_wallets(folder: Path, terms: Terms, processes: int) -> None:
    """Empty wallets for users who are spread over so many nodes, all of them or none."""
    if not 1 <= processes <= terms.users:
        raise BadInput(f"--processes {processes} cannot share {terms.users} users; give 1 to {terms.users}")
    if processes == 1:
        StoredWallet.create(folder, terms)
        return
    if folder.exists() or folder.is_symlink():
        raise BadInput(f"{folder} exists already; a wallet is never written over, give a new folder")
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        draft.mkdir(mode=0o700)
        for number, (_, users) in enumerate(shares(terms.users, processes)):
            StoredWallet.create(draft / f"node-{number}", replace(terms, users=users))
        draft.rename(folder)
    except OSError as error:
        raise BadInput(f"the wallets {folder} cannot be made: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
