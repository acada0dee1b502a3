"""One target under atheris: `python -m benchmarks.guided TARGET CORPUS SECONDS SEED`, started by benchmarks/fuzz.py."""

import logging
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["emulator", "nodes"]):
    from benchmarks.targets import TARGETS, seeds


def main(target: str, corpus: Path, seconds: str, seed: str) -> None:
    """Until the time is over or a promise is broken; libFuzzer ends the process."""
    logging.disable()
    for number, data in enumerate(seeds(target)):
        (corpus / f"seed-{number}").write_bytes(data)
    limits = [f"-max_total_time={float(seconds):.0f}", f"-seed={seed}", "-max_len=65536", "-timeout=30"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
