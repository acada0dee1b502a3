"""The folder of a run: `runs/<time>-<name>/`, with `runs/latest` pointing at the newest."""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.emulator.errors import BadInput
from parley.emulator.wire.messages import NAME
from parley.nodes.state.user_state import FILE as STATE_FILE

RUNS = Path("runs")
LONGEST_NAME = 40
SHARDS = "shards"


class _File:
    """The path of a file of the run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: "RunFolder", kind: type["RunFolder"]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Where everything about one run is. Nothing is written before `create`."""

    run: str
    path: Path
    default: bool

    transcript = _File("transcript.parley")
    witness = _File("witness.parley")
    opening_key = _File("opening.key")
    result = _File("result.json")
    # Whose signatures count.
    trust = _File("trust.toml")
    plan = _File("state/plan.parley")
    conditions = _File("state/conditions.toml")
    keys = _File("state/keys")
    relays = _File("state/relays.toml")
    addresses = _File("state/addresses.json")

    def server_addresses(self, name: str) -> Path:
        """Where a shuffler or a relay says how it is reached."""
        return self.path / "state" / f"{name}.json"

    def shard_transcript(self, shard: str) -> Path:
        """The record of a shard, in a run that has several boards."""
        return self.transcript.with_name(SHARDS) / shard / self.transcript.name

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def signing(self, name: str) -> Path:
        """What the analyst, the board or the shuffler signs with."""
        return self.path / "state" / f"{name}.signing"

    def node_state(self, name: str) -> Path:
        """The folder of a user node's state, and of the shuffler's batches."""
        return self.path / "state" / name

    def erase_secrets(self) -> None:
        """Remove what this run's parties signed and encrypted with; what was signed can still be checked."""
        state = self.path / "state"
        for pattern in ("*.signing", "keys/*.secret", "keys/*.signing", f"*/{STATE_FILE}"):
            for path in state.glob(pattern):
                path.unlink(missing_ok=True)

    def create(self) -> None:
        """Make the folders; they hold private things, so they are closed to others."""
        try:
            with suppress(FileExistsError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700)
            (self.path / "logs").mkdir()
            (self.path / "state").mkdir()
        except FileExistsError:
            raise BadInput(f"{self.path} already exists; give a new folder") from None
        except OSError as error:
            raise BadInput(f"the folder {self.path} cannot be made: {error.strerror}") from error
        if self.default:
            # At no moment does the link name nothing.
            fresh = self.path.with_name(f".latest-{os.getpid()}")
            fresh.symlink_to(self.path.name)
            fresh.replace(self.path.with_name("latest"))

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Write result.json, whole or not at all."""
        fresh = self.result.with_suffix(".new")
        fresh.write_text(json.dumps(result, indent=2) + "\n")
        fresh.replace(self.result)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Inside, a file beside `path` to write to; after that it is there whole, or as it was before.

    Nobody can foresee its name: in a folder that came from a stranger it could be a link to a file of ours.
    """
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        yield fresh
        fresh.replace(path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def choose_folder(out: Path | None, name: str) -> RunFolder:
    """The folder a run will have, checked but not yet made."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise BadInput(f"--name {name!r} cannot be used; give up to {LONGEST_NAME} letters, digits, dots and dashes")
    run = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    if out is not None:
        if out.exists() or out.is_symlink():
            raise BadInput(f"--out {out} already exists; give a new folder")
        return RunFolder(run=run, path=out.absolute(), default=False)
    number, path = 1, RUNS / run
    while path.exists():
        number += 1
        path = RUNS / f"{run}-{number}"
    return RunFolder(run=path.name, path=path.absolute(), default=True)
