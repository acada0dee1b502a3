"""A user node in plain Python, written from docs/wire.md alone: not one import from Parley.

    parley node init alice --run survey --node alice --first 4 --users 2 --inputs 5 --cap 1 --trust trust.toml
    python foreign_node.py --state alice --inputs alice.npy --addresses addresses.json

It speaks `frequency-grr`, and `one-round` for the statistic gini-diversity. It keeps its state in the file that
`parley node init` made, so that either program can go on where the other stopped, and nobody answers twice.
"""

import argparse
import fnmatch
import json
import os
import re
import sys
import time
from functools import partial
from pathlib import Path

import foreign_wire as wire
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from foreign_replies import Protocol, coins, mark_of
from foreign_wire import Refused, State

CHUNK = 4096
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


class Distrust(Exception):
    """Somebody lies: this node stops, and what shows the lie is on disk."""


class Node:
    """Hears one message after the other; `say` sends a frame to the board."""

    def __init__(self, state, inputs, say):
        self.state, self.inputs, self.say = state, inputs, say
        me = state.identity
        self.name, self.first, self.consent = me["node"], me["first"], me["consent"]
        self.key = Ed25519PrivateKey.from_private_bytes(me["signing_key"])
        self.public = self.key.public_key().public_bytes_raw()
        self.is_pattern = not set("*?[").isdisjoint(self.consent["run"])
        self.complaints = set()
        self.protocol = self.terms = self.open = self.held = self.seating = None
        self.seated = self.known = bool(state.answered)
        self.nonce = state.seated["nonce"] if state.seated else b""
        self.leaving, self.over, self.done, self.result = False, False, False, False
        # A round is answered only after all before it were accounted for.
        last = max(state.answered, default=0)
        self.proven = max(0, last - 1)
        self.head = (state.answered[last]["size"], state.answered[last]["root"]) if last else (0, b"")
        if len(inputs) != me["users"] or not all(0 <= x < self.consent["domain"]["inputs"] for x in inputs):
            raise SystemExit("the inputs are not those of these users")
        self.mark = mark_of(me["coin_key"], inputs)
        if any(each.get("inputs") not in (None, b"", self.mark) for each in state.answered.values()):
            raise SystemExit("these are other inputs than those it has answered about")
        if not self.consent["board"] or self.consent["trusts"] != "nobody":
            raise SystemExit("this node takes part in signed runs without a shuffler only")

    @property
    def run(self):
        """The run it takes part in or waits for; empty while it waits for any of a pattern."""
        if self.state.seated:
            return self.state.seated["run"]
        return "" if self.is_pattern else self.consent["run"]

    def tell(self, kind, **fields):
        nonce = self.state.seated["nonce"] if self.state.seated and kind != "ready" else b""
        frame = wire.encode(kind, fields, self.key, nonce)
        self.say(frame)
        return frame

    def ready(self):
        who = {"node": self.name, "first": self.first, "users": len(self.inputs), "run": self.run, "key": self.public}
        self.tell("ready", pid=os.getpid(), **who)

    def inquire(self):
        if self.held or self.leaving:
            wanted = self.proven + 1 if self.seated or self.leaving else 0
            self.tell("inquiry", run=self.run, round=wanted, node=self.name)

    def hear(self, frame):
        """One frame, from whoever it may come."""
        kind, heard, body, signature = wire.decode(frame)
        nonce = heard["nonce"] if kind in wire.CARRY_A_NONCE else self.nonce
        keys = [self.consent[who] for who in wire.AUTHORS.get(kind, ())]
        if keys and not any(wire.is_signed_by(key, kind, nonce, body, signature) for key in keys):
            raise Refused(f"a {kind} that is not signed by whom it must come from")
        if kind == "setup" and not self.state.seated:
            if self._is_of_another(heard):
                return
            # Even if the setup is refused: the end of the run is signed with it.
            self.nonce = heard["nonce"]
        try:
            if kind == "setup":
                self._sit(heard)
            elif kind == "seating" and heard["node"] == self.name:
                self.known |= heard["key"] == self.public
                self._find_seat(heard, self.state.seated)
            elif kind == "announce" and self.protocol and not self.leaving:
                self._asked(heard)
            elif kind == "reminder" and self.open and (heard["run"], heard["round"]) == (self.run, self.open["round"]):
                chunks = heard["missing"].get(self.name)
                if type(chunks) is list:
                    self._reply(self.open, [each for each in chunks if each in self._chunks()] or self._chunks())
            elif kind == "receipt" and self.protocol:
                self._believe(heard)
            elif kind in ("result", "abort") and self.run in ("", heard["run"]) and not self.over:
                if kind == "result" and self.state.seated and not self.protocol:
                    return  # started again: the board repeats the setup first
                if kind == "abort" and self._is_of_another(heard):
                    return
                self.over, self.result = True, kind == "result" and self.protocol is not None and self.seated
                self.leaving = self.result and self.proven < max(self.state.answered, default=0)
                self.inquire() if self.leaving else self._leave()
        except Refused as error:
            complaint = heard.get("round", 0), f"node {self.name}: {error}"[:500]
            may = self.known and kind in ("setup", "announce") and NAME.fullmatch(heard["run"])
            if may and complaint not in self.complaints:
                self.complaints.add(complaint)
                self.tell("refusal", run=heard["run"], round=complaint[0], node=self.name, reason=complaint[1])
            raise

    def _is_of_another(self, heard):
        """Whether a setup or an abort is of another run of this name than the one it takes part or holds a seat in."""
        told = self.seating or {}
        own = (told.get("run"), told.get("key")) == (heard["run"], self.public)
        known = self.state.seated or (told if own else None)
        return known is not None and heard["nonce"] != known["nonce"]

    def _sit(self, setup):
        """The checks of wire.md, "Consent", in their order; no input is looked at."""
        digest, seated, consent = wire.setup_digest(setup), self.state.seated, self.consent
        if seated and digest != seated["digest"]:
            raise Refused(f"a second, different setup for run {setup['run']}")
        if self.protocol:
            return
        if setup["run"] in self.state.finished or not NAME.fullmatch(setup["run"]):
            raise Refused(f"the run {setup['run'][:80]} is over, or has no name")
        covers = fnmatch.fnmatchcase if self.is_pattern else str.__eq__
        if not covers(setup["run"], consent["run"]):
            raise Refused(f"the run {setup['run']} is not one that these users agreed to")
        if wire.pack(setup["domain"]) != wire.pack(consent["domain"]):
            raise Refused("the domain is not the agreed one")
        if len(setup["nonce"]) != 16 or setup["version"] != 1:
            raise Refused("the setup has no nonce, or another version of the protocol")
        protocol = Protocol(setup["protocol"], setup["parameters"])
        if protocol.inputs != consent["domain"]["inputs"]:
            raise Refused(f"the protocol is about {protocol.inputs} inputs")
        columns = consent["domain"].get("columns", [])
        if columns and protocol.levels != [each["levels"] for each in columns]:
            raise Refused(f"the protocol has columns of {protocol.levels} levels")
        if (setup["epsilon"], setup["delta"], setup["rounds"]) != (protocol.epsilon, 0.0, 1):
            raise Refused("the setup claims what its protocol is not")
        if not protocol.epsilon <= consent["cap"]:
            raise Refused(f"epsilon {protocol.epsilon} is above the cap {consent['cap']}")
        if not seated:
            self._find_seat(self.seating, setup)
            self.state.write("seated", run=setup["run"], digest=digest, nonce=setup["nonce"])
        self.protocol, self.terms = protocol, wire.terms_of(setup)

    def _find_seat(self, told, run):
        """wire.md, "Seats": nothing is answered before the board has said that the seat is this key's."""
        self.seating = told
        if told and run and (told["run"], told["nonce"]) == (run["run"], run["nonce"]):
            if told["key"] != self.public:
                raise SystemExit(f"the seat of {self.name} in run {told['run']} is held by another key")
            self.seated = True
            if self.held:
                self._asked(self.held)

    def _asked(self, announce):
        """Answer each round once, and only after every round before is accounted for."""
        number, question = announce["round"], wire.question_of(self.terms, announce)
        if announce["run"] != self.run or number != 1 or announce["broadcast"]:
            raise Refused("a broadcast that is not the first and only one of this run")
        known = self.state.answered.get(number)
        if known and known["question"] != question:
            raise Refused(f"a second, different broadcast for round {number}")
        if known and self.open:
            return
        if not known and (self.proven < number - 1 or not self.seated):
            self.held = announce
            return self.inquire()
        if not known:
            (size, root), frame = self.head, wire.encode("announce", announce)
            shown = {"size": size, "root": root, "inputs": self.mark}
            self.state.write("answered", round=number, question=question, announce=frame, **shown)
        self.open, self.held = announce, None
        self._reply(announce, self._chunks())

    def _chunks(self):
        return range(max(1, -(-len(self.inputs) // CHUNK)))

    def _reply(self, announce, chunks, quiet=False):
        """The same bytes each time: coins belong to the question. Returns the frames."""
        question, frames = wire.question_of(self.terms, announce), []
        for chunk in chunks:
            part, first = self.inputs[chunk * CHUNK : (chunk + 1) * CHUNK], self.first + chunk * CHUNK
            columns = self.protocol.columns(part, partial(coins, self.state.identity["coin_key"], question, first))
            fields = {"run": announce["run"], "round": announce["round"], "node": self.name, "chunk": chunk}
            fields |= {"chunks": len(self._chunks()), "users": [first, len(part)], "columns": columns}
            frame = wire.encode("replies", {**fields, "question": question}, self.key, self.state.seated["nonce"])
            frames.append(frame)
            if not quiet:
                self.say(frame)
        return frames

    def _believe(self, receipt):
        """wire.md, "Receipts": our frames are under the board's signed head, or the board names us as absent."""
        number, me = self.proven + 1, (self.run, self.name)
        if (receipt["run"], receipt["node"]) != me or receipt["round"] != number:
            return
        kind, close, body, signature = wire.decode(receipt["close"])
        if kind != "close" or (close["run"], close["round"]) != (self.run, number):
            raise Refused("a receipt without its close")
        if not wire.is_signed_by(self.consent["board"], kind, self.state.seated["nonce"], body, signature):
            raise Refused("a receipt whose close the board did not sign")
        size, root = self.head
        extends = receipt["before"], receipt["consistency"]
        if size and not (
            extends[0] == size and wire.is_consistent(size, root, close["size"], close["root"], extends[1])
        ):
            self._distrust(receipt, "the head of the record does not extend the one before")
        known, absent = self.state.answered.get(number), self.name in close["absent"]
        if not known and (receipt["chunks"] or not absent):
            self._distrust(receipt, "the board has a reply that this node does not remember")
        if known and not absent and not wire.all_included(self._again(known), self.name, receipt, close):
            self._distrust(receipt, "its reply is not on record, and the close does not name it")
        if known and absent:
            self._keep(receipt, "it answered, and the board declared its reply missing")
        self.proven, self.head = number, (close["size"], close["root"])
        if self.held:
            self._asked(self.held)
        elif self.leaving and self.proven >= max(self.state.answered, default=0):
            self._leave()

    def _again(self, known):
        """The frames of a round that was answered."""
        return self._reply(wire.decode(known["announce"])[1], self._chunks(), quiet=True)

    def _keep(self, receipt, reason):
        known = self.state.answered.get(receipt["round"])
        self.state.keep_evidence(receipt, reason, self._again(known) if known else [])

    def _distrust(self, receipt, reason):
        self._keep(receipt, reason)
        raise Distrust(reason)

    def _leave(self):
        if self.state.seated:
            self.state.write("finished", run=self.state.seated["run"])
        self.done = True


def serve(state, inputs, addresses, curve=None):
    """Connect, say that we are there, answer until the run is over. True if it ended with a result."""
    context, inbox, feed = wire.connect(addresses, state.identity["node"], curve)
    node = Node(state, inputs, inbox.send)
    if node.run and node.run in state.finished:
        return True  # nothing of it is ever answered again
    node.ready()
    said = asked = heard = time.monotonic()
    try:
        while not node.done:
            if feed.poll(100):
                published, heard = feed.recv(), time.monotonic()
                try:
                    _, _, frame = wire.unpack(wire.unsummed(published[9 if published[:1] == b"P" else 1 :]))
                    node.hear(frame)
                except (Refused, ValueError, TypeError) as error:
                    print(f"refused: {error}", file=sys.stderr)
            now = time.monotonic()
            if now - heard > (5 if node.leaving else 180):
                raise SystemExit("the board has fallen silent")
            if now - said > 0.5 and not node.open:
                node.ready()
                said = now
            if now - asked > 0.25:
                node.inquire()
                asked = now
    except Distrust as lie:
        raise SystemExit(f"stopped, and kept the evidence: {lie}") from lie
    finally:
        context.destroy(linger=1000)
    return node.result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", required=True, help="folder that `parley node init` made")
    parser.add_argument("--inputs", required=True, help=".npy with one whole number for each user")
    parser.add_argument("--addresses", required=True, help="file in which the board wrote its endpoints")
    parser.add_argument("--keys", help="our own pair of CURVE keys")
    parser.add_argument("--board-key", help="file with the board's public CURVE key")
    given = parser.parse_args()
    private = np.load(given.inputs, allow_pickle=False).tolist()
    curve = wire.curve_keys(given.keys, given.board_key) if given.keys else None
    sys.exit(0 if serve(State(given.state), private, json.loads(Path(given.addresses).read_text()), curve) else 3)
