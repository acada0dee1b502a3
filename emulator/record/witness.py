"""The private record of an emulation: inputs, coin key, source. Never in the transcript, never sent, mode 0600."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Inputs
from parley.emulator.wire.codec import packed_parts, unpack

MAGIC = b"PARLEYW1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Witness:
    """What only the emulation knows. It has no representation as text, so that it cannot end up in a log.

    `source` says where the inputs come from: the name of the file, and what was clipped or left out.
    """

    run: str
    key: bytes
    inputs: Inputs
    source: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        known: dict[str, Any] = {"run": self.run, "key": self.key, "inputs": self.inputs}
        known |= {"source": dict(self.source)} if self.source else {}
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC)
            # Inputs are most of the file, and are written from where they are.
            file.writelines(packed_parts(known))
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: Path) -> "Witness":
        """Read a witness back, or BadInput saying what is wrong with the file."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadInput(f"the witness {path} cannot be read: {error.strerror}") from error
        if not content.startswith(MAGIC):
            raise BadInput(f"{path} is not a witness of this version")
        try:
            fields = unpack(memoryview(content)[len(MAGIC) :])
        except RemoteProtocolError as error:
            raise BadInput(f"the witness {path} is damaged: {error}") from error
        if not isinstance(fields, dict) or set(fields) - {"source"} != {"run", "key", "inputs"}:
            raise BadInput(f"the witness {path} does not hold run, key and inputs")
        run, key, inputs = fields["run"], fields["key"], fields["inputs"]
        if not isinstance(key, bytes) or len(key) != KEY_BYTES or not isinstance(run, str):
            raise BadInput(f"the witness {path} holds no usable key")
        if not isinstance(inputs, np.ndarray) or inputs.dtype.kind not in "iu" or inputs.ndim != 1:
            raise BadInput(f"the witness {path} holds no usable inputs")
        if not isinstance(fields.get("source", {}), dict):
            raise BadInput(f"the witness {path} does not say where its inputs come from")
        return cls(**fields)
