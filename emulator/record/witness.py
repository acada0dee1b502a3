"""The private record of an emulation: inputs and coin key. Never in the transcript, never sent, mode 0600."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parley.emulator.coins import KEY_BYTES
from parley.emulator.errors import BadInput, RemoteProtocolError
from parley.emulator.protocol import Inputs
from parley.emulator.wire.codec import pack, unpack

MAGIC = b"PARLEYW1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Witness:
    """What only the emulation knows. It has no representation as text, so that it cannot end up in a log."""

    run: str
    key: bytes
    inputs: Inputs

    def save(self, path: Path) -> None:
        content = MAGIC + pack({"run": self.run, "key": self.key, "inputs": self.inputs})
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
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
        if not isinstance(fields, dict) or set(fields) != {"run", "key", "inputs"}:
            raise BadInput(f"the witness {path} does not hold run, key and inputs")
        run, key, inputs = fields["run"], fields["key"], fields["inputs"]
        if not isinstance(key, bytes) or len(key) != KEY_BYTES or not isinstance(run, str):
            raise BadInput(f"the witness {path} holds no usable key")
        if not isinstance(inputs, np.ndarray) or inputs.dtype != np.int64 or inputs.ndim != 1:
            raise BadInput(f"the witness {path} holds no usable inputs")
        return cls(run=run, key=key, inputs=inputs)
