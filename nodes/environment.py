"""The environment of a child process: this Parley, and one thread for linear algebra."""

import os
from pathlib import Path

import parley

# A node's arrays are small, and a thousand nodes share the cores. And a library that splits sums among its threads
# rounds differently with their number.
SINGLE_THREADED = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)


def child_environment() -> dict[str, str]:
    """What a process that runs `python -m parley...` is started with, wherever this Parley was loaded from."""
    root = str(Path(parley.__file__).absolute().parent.parent)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, **SINGLE_THREADED, "PYTHONPATH": path}
