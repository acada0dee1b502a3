"""One signed run between real processes, the foreign node among them, that the tests of the pages look at."""

import pytest

from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_workload
from tests.docs.foreign import FOREIGN, Table, play


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A finished run of frequency-grr; nobody may change its files."""
    protocol = design("frequency-grr", make_workload("gini-diversity", "5", None), epsilon=2.0, users=1200)
    cohorts = {"node-0": 600, FOREIGN: 400, "node-1": 200}
    table = Table(folder=tmp_path_factory.mktemp("played"), protocol=protocol, cohorts=cohorts)
    play(table)
    return table
