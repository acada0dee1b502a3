"""What one test registers, no other test knows."""

import pytest

from parley.protocols import registry
from parley.protocols.plugins import VARIABLE


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_OUTSIDE", {})
    monkeypatch.setenv(VARIABLE, "")
