"""Recordings in memory compute as nodes do: on one thread, so that what is recomputed has the same bits."""

from collections.abc import Iterator

import pytest

from parley.emulator.arithmetic import one_thread


@pytest.fixture(scope="session", autouse=True)
def recorded_as_nodes_do() -> Iterator[None]:
    with one_thread():
        yield
