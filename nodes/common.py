"""What the three processes share: options of the command line, logging, exit codes."""

import asyncio
import json
import logging
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from emulator.errors import BadInput, ParleyError

GOOD, CHECK_FAILED, BAD_INPUT, UNFINISHED = 0, 1, 2, 3


def start_logging() -> None:
    """One line an event on standard error, which the launcher sends to logs/."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", force=True)


def run_to_exit(work: Coroutine[Any, Any, int]) -> None:
    """Run a node to its end and leave with its exit code; a Parley error is one sentence."""
    start_logging()
    try:
        code = asyncio.run(work)
    except BadInput as error:
        print(f"parley: {error}", file=sys.stderr)
        code = BAD_INPUT
    except ParleyError as error:
        print(f"parley: {error}", file=sys.stderr)
        code = UNFINISHED
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    sys.exit(code)


def read_addresses(path: Path) -> dict[str, str]:
    """The endpoints a board wrote down when it had bound them."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"the board's addresses cannot be read from {path}: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(found.get(each), str) for each in ("post", "feed", "desk")):
        raise BadInput(f"{path} does not name the endpoints post, feed and desk")
    return found
