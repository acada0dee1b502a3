"""Runs that were recorded: what a person names as RUN, and the files that belong to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput, TranscriptError
from parley.emulator.protocol import Protocol
from parley.emulator.record.conversation import Conversation, listen
from parley.emulator.record.witness import Witness
from parley.emulator.wire.sealing import load_secret
from parley.emulator.wire.security import read_trust
from parley.launch.results.folder import RUNS
from parley.launch.settings import path_option, protocol_file_option
from parley.protocols.registry import build
from parley.protocols.shuffle.sealed import unsealed

TRANSCRIPT, WITNESS, OPENING_KEY, TRUST = "transcript.parley", "witness.parley", "opening.key", "trust.toml"


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """A transcript and, where the emulation left them, the witness and the list of signing keys beside it."""

    transcript: Path
    witness: Path | None
    trust: Path | None = None

    def listen(self) -> Conversation:
        """The conversation on record; BadInput where the record was altered, for then it proves nothing."""
        try:
            return listen(self.transcript, self.build)
        except TranscriptError as error:
            raise BadInput(f"{error}; see `parley audit`") from error

    def build(self, name: str, parameters: Mapping[str, Any]) -> Protocol:
        """The protocol of a setup; with the analyst's opening key beside the record, one that opens sealed replies."""
        protocol = build(name, parameters)
        key = self.transcript.with_name(OPENING_KEY)
        return unsealed(protocol, load_secret(key)) if key.is_file() else protocol

    def load_witness(self) -> Witness | None:
        """The witness, or None where there is none; BadInput where it cannot be used."""
        return None if self.witness is None else Witness.load(self.witness)

    def load_keys(self) -> dict[str, bytes] | None:
        """Whose signatures count, or None where nobody said so; BadInput where the list cannot be used."""
        return None if self.trust is None else read_trust(self.trust)

    def need_witness(self) -> Witness:
        """The witness, or BadInput: some questions cannot be answered from the transcript alone."""
        if self.witness is None:
            raise BadInput(f"{self.transcript} has no {WITNESS} beside it; give one with --witness FILE")
        return Witness.load(self.witness)


def find_run(named: Path, witness: Path | None = None, trust: Path | None = None) -> RunFiles:
    """A folder of a run, a transcript, or the name of a folder in runs/."""
    for candidate in (named, RUNS / named):
        if candidate.is_dir() and (candidate / TRANSCRIPT).is_file():
            candidate = candidate / TRANSCRIPT
        if candidate.is_file():
            if witness is not None and not witness.is_file():
                raise BadInput(f"--witness {witness} is not a file; it is a run's {WITNESS}")
            # What was named, else what lies beside the transcript.
            witness, trust = (
                named or (beside if (beside := candidate.with_name(usual)).is_file() else None)
                for named, usual in ((witness, WITNESS), (trust, TRUST))
            )
            return RunFiles(transcript=candidate, witness=witness, trust=trust)
    if named.is_dir():
        raise BadInput(f"{named} holds no {TRANSCRIPT}; give the folder of a run or a transcript")
    raise BadInput(f"no run called {str(named)!r}; give the folder of a run, its name in {RUNS}/ or a transcript")


def run_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """RUN, and `--protocol-file` for runs of protocols from outside."""
    argument = click.argument("run", type=click.Path(path_type=Path), default=RUNS / "latest")
    return protocol_file_option(argument(command))


witness_option = path_option("--witness", help=f"The private record.  [default: {WITNESS} beside the run]")
