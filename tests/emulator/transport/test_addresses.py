"""Addresses that make sense, and room for the connections they will have."""

import resource
import subprocess
import sys

import pytest

from parley.emulator.errors import BadInput
from parley.emulator.transport.addresses import BoardAddresses, check_private, descriptors_for, host_and_port

RAISE = """
import resource, sys
from parley.emulator.transport.addresses import raise_file_limit
from parley.emulator.errors import BadInput
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128))
raise_file_limit(50)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
raise_file_limit(100)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
try:
    raise_file_limit(2**40)
except BadInput as error:
    print(error)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_three_ports_in_a_row_or_any_three() -> None:
    assert BoardAddresses.on("10.0.0.1", 5555) == BoardAddresses(
        inbox="tcp://10.0.0.1:5555", feed="tcp://10.0.0.1:5556", delivery="tcp://10.0.0.1:5557"
    )
    assert BoardAddresses.on().delivery == "tcp://127.0.0.1:0"


def test_hosts_and_ports_are_told_apart() -> None:
    assert host_and_port("tcp://[::1]:5555") == ("::1", "5555")
    assert host_and_port("tcp://*:*") == ("*", "*")
    assert host_and_port("ipc:///run/board") is None


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tcp://localhost:1", "tcp://[::1]:1", "ipc:///run/board"])
def test_this_machine_needs_no_keys(address: str) -> None:
    check_private(address)


@pytest.mark.parametrize("host", ["0.0.0.0", "*", "127.0.0.1.example.org", "10.0.0.1", "[::]", "lo"])
def test_anything_else_does(host: str) -> None:
    with pytest.raises(BadInput, match="parley keys"):
        check_private(f"tcp://{host}:1")


def test_the_file_limit_is_raised_or_named_before_anything_starts() -> None:
    ran = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True, check=True)
    untouched, raised, refusal, still = ran.stdout.splitlines()
    assert (untouched, raised, still) == ("64 128", "128 128", "128 128")
    assert f"{2**40} open files are needed and the hard limit is 128" in refusal
    assert "ulimit" in refusal


def test_a_board_needs_two_descriptors_a_node() -> None:
    assert descriptors_for(1000) - descriptors_for(0) == 2000
    assert descriptors_for(0) < resource.getrlimit(resource.RLIMIT_NOFILE)[1]
