"""Two hosts for real: two network namespaces joined by a link that goes down in mid-round and comes up again.

Needs root and iproute2. Where namespaces are not permitted the test is skipped, unless PARLEY_REQUIRE_NETNS is set.
"""

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.audit.report import audit
from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.record.witness import Witness
from parley.emulator.roles.consent import Consent, domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.messages import Announce, Close, Event, Message, Replies, Result
from parley.emulator.wire.security import read_signer, read_trust
from parley.launch.cluster.keyring import Keyring, make_keyring, parties
from parley.nodes.analyst import write_plan
from parley.nodes.state.user_state import Identity, State
from parley.protocols.registry import build, design
from parley.protocols.workloads.gini import GiniDiversity
from tests.launch.conftest import ROOT
from tests.launch.processes.test_forkserver import until
from tests.launch.recovery import estimates, recorded, replies
from tests.launch.test_interrupt import on_record

RUN, USERS, NODES = "two-hosts", 120, 3
KEY = key_from_seed(5)
# Addresses that RFC 5737 keeps for examples; they exist only inside the two namespaces.
BOARD_HOST, USER_HOST = "192.0.2.1", "192.0.2.2"
ENDPOINTS = {name: f"tcp://{BOARD_HOST}:{port}" for name, port in (("inbox", 7001), ("feed", 7002), ("delivery", 7003))}


# One node takes its time in the second round; by the fourth reminder it has long sent its reply.
SLOW = """
[[fault]]
kind = "delay"
nodes = "node-2"
direction = "up"
messages = ["replies"]
rounds = 2
seconds = 2.0
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def obstacle() -> str:
    """Why there can be no namespaces here; empty where there can."""
    if shutil.which("ip") is None:
        return "there is no `ip` (package iproute2)"
    name = f"parley-{secrets.token_hex(3)}"
    try:
        ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted: {error.stderr.strip()}"
    ip("netns", "delete", name)
    return ""


@dataclass
class Hosts:
    """Two namespaces, a link, and what runs in them."""

    folder: Path
    name: str = field(default_factory=lambda: f"parley-{secrets.token_hex(3)}")
    running: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def here(self) -> str:
        return f"{self.name}-a"

    @property
    def there(self) -> str:
        return f"{self.name}-b"

    def build(self) -> None:
        for namespace in (self.here, self.there):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        # Both ends are made inside: nothing of this is ever seen outside.
        ip("-n", self.here, "link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", self.there)
        for namespace, address in ((self.here, BOARD_HOST), (self.there, USER_HOST)):
            ip("-n", namespace, "address", "add", f"{address}/24", "dev", "wire")
            ip("-n", namespace, "link", "set", "wire", "up")

    def cut(self) -> None:
        ip("-n", self.here, "link", "set", "wire", "down")

    def mend(self) -> None:
        ip("-n", self.here, "link", "set", "wire", "up")

    def start(self, namespace: str, node: str, name: str, *options: object) -> "subprocess.Popen[bytes]":
        command = ["ip", "netns", "exec", namespace, sys.executable, "-m", f"parley.nodes.{node}", *map(str, options)]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, stderr=log, stdout=log)
        self.running.append(process)
        return process

    def tear_down(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        for namespace in (self.here, self.there):
            # It may not have come into being.
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    reason = obstacle()
    if reason and os.environ.get("PARLEY_REQUIRE_NETNS"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    made = Hosts(tmp_path)
    try:
        made.build()
        yield made
    finally:
        made.tear_down()


def options(given: dict[str, object]) -> list[object]:
    return [word for pair in given.items() for word in pair]


def start_everybody(hosts: Hosts, ring: Keyring, folder: Path) -> list["subprocess.Popen[bytes]"]:
    terms = {"--run": RUN, "--users": USERS, "--nodes": NODES, "--transcript": folder / "transcript.parley"}
    endpoints = {f"--{name}": endpoint for name, endpoint in ENDPOINTS.items()}
    terms |= {"--signing-key": ring.signing("board"), "--trust": ring.trust, "--nonce": nonce_from_key(KEY).hex()}
    board = hosts.start(hosts.here, "board", "board", *options({**terms, **endpoints, **ring.arguments("board")}))
    plan = {"--run": RUN, "--plan": folder / "plan", "--signing-key": ring.signing("analyst")}
    trust = read_trust(ring.trust)
    consent = Consent(run=RUN, domain=domain_of(3), cap=2.0, analyst=trust["analyst"], board=trust["board"])
    analyst = hosts.start(
        hosts.here, "analyst", "analyst", *options({**plan, **endpoints, **ring.arguments("analyst")})
    )
    started = [board, analyst]
    for number in range(NODES):
        name, share = f"node-{number}", USERS // NODES
        identity = Identity(
            node=name,
            first=number * share,
            users=share,
            consent=consent,
            coin_key=KEY,
            signing_key=read_signer(ring.signing(name)).secret,
        )
        State.create(folder / name, identity)
        private = {"--witness": folder / "witness", "--state": folder / name}
        slow = {"--conditions": folder / "slow.toml"}
        words = {**private, **slow, **endpoints, **ring.arguments(name)}
        started.append(hosts.start(hosts.there, "user", name, *options(words)))
    return started


def in_round(folder: Path, number: int) -> list[Message]:
    """What is on record since this round was opened."""
    messages = on_record(folder)
    opened = [place for place, each in enumerate(messages) if isinstance(each, Announce) and each.round == number]
    return messages[opened[0] + 1 :] if opened else []


def test_the_link_goes_down_in_mid_round(hosts: Hosts, tmp_path: Path) -> None:
    protocol = design("three-round", GiniDiversity(levels=3), epsilon=2.0, users=USERS)
    inputs, key = np.arange(USERS, dtype=np.int64) % 3, KEY
    write_plan(tmp_path / "plan", protocol)
    Witness(run=RUN, key=key, inputs=inputs).save(tmp_path / "witness")
    (tmp_path / "slow.toml").write_text(SLOW)
    started = start_everybody(hosts, make_keyring(tmp_path / "keys", parties(["node-0", "node-1", "node-2"])), tmp_path)
    # Two nodes have answered; the third one's reply sets out while the link is down.
    until(lambda: sum(isinstance(each, Replies) for each in in_round(tmp_path, 2)) == NODES - 1)
    hosts.cut()
    until(lambda: sum(each.kind == "reminder" for each in in_round(tmp_path, 2)) >= 4)
    cut_off = in_round(tmp_path, 2)
    assert not [each for each in cut_off if isinstance(each, Close)]
    hosts.mend()
    codes = [process.wait(120) for process in started]
    logs = {path.stem: path.read_text()[-2000:] for path in tmp_path.glob("*.log")}
    assert codes == [0] * len(codes), logs
    messages = recorded(tmp_path)
    honest = [message for _, message in conversation(protocol, inputs, key, run=RUN)]
    assert replies(messages) == replies(honest)
    assert estimates(messages) == estimates(honest)
    assert isinstance(messages[-1], Result)
    assert not [each for each in messages if isinstance(each, Event) and each.event == "drop"]
    assert audit(tmp_path / "transcript.parley", build).ok
