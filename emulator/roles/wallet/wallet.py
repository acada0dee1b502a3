"""What each user has given away over many runs, and who may answer the next question. No disk, no clock.

After replies m_1 .. m_t to the public channels P_1 .. P_t a user has L(x) = sum_i log P_i(m_i | x), and max L - min L,
its spread, is the exact privacy loss of everything it has said about a value that never changed. A wallet of the mode
"constant" lets a user answer a channel P only if for EVERY reply m the spread of L + log P(m | .) stays within the cap:
a decision that looks at past replies and channels, which are public, and never at the input. A wallet of the mode "sum"
adds up claims instead and needs no constant value.

`keep` is called with each entry before it counts: a wallet on disk writes it down there. The same entries, taken in
again with `take`, give the same wallet. Amounts are whole numbers of 10^-15 (epsilon) and 10^-18 (delta), read as they
are written: twenty times 0.1 is 2.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput, LocalProtocolError, RemoteProtocolError
from parley.emulator.protocol import Broadcast, Builder, Protocol, Trust, check_arrays
from parley.emulator.randomizer import Array, Columns, Floats, Integers
from parley.emulator.roles.wallet.entries import Accepted, Entry, Granted, Mask, Said, Terms, View
from parley.emulator.roles.wallet.spread import EPSILON_UNITS, NEVER, Channel, Losses, parts, units
from parley.emulator.round import Round
from parley.emulator.wire.codec import pack

DELTA_UNITS = 10**18
# Numbers of L that are kept for the process's life (64 MiB); a larger wallet works them out when it is asked.
MOST_CACHED = 1 << 23


@dataclass(frozen=True, kw_only=True, eq=False)
class Spent:
    """What each user has given away at most, and what its cap leaves."""

    loss: Floats
    delta: Floats
    left: Floats


@dataclass(eq=False)
class _Question:
    granted: Granted
    said: Mask
    columns: dict[str, Array] = field(default_factory=dict)


@dataclass(eq=False)
class _Run:
    accepted: Accepted
    described: bytes
    silent: Mask
    questions: dict[int, _Question] = field(default_factory=dict)


@dataclass(eq=False)
class _Account:
    """The questions about one domain, and L of every user where it fits into memory."""

    inputs: int
    answered: list[tuple[_Run, int]] = field(default_factory=list)
    cache: Losses | None = None


class Wallet:
    """The accounts of n users, by their place 0 .. n-1."""

    def __init__(self, terms: Terms, build: Builder, keep: Callable[[Entry], None] | None = None) -> None:
        self.terms = terms
        self._build = build
        # Runs are often of the same protocol: each is built and remembered once.
        self._protocols: dict[bytes, Protocol] = {}
        self._keep = keep
        self._runs: dict[str, _Run] = {}
        self._accounts: dict[bytes, _Account] = {}
        self._flat = np.zeros(terms.users, np.int64)
        self._pending = np.zeros(terms.users, np.int64)
        self._delta = np.zeros(terms.users, np.int64)
        self._cap = math.floor(Fraction(repr(float(terms.cap))) * EPSILON_UNITS)
        self._delta_cap = math.floor(Fraction(repr(float(terms.delta_cap))) * DELTA_UNITS)

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def accept(self, run: str, protocol: Protocol, *, trusts: Trust = "nobody", view: View | None = None) -> Mask:
        """Who can take part in a run. Where claims are added up, the whole claim is reserved; the same run costs once.

        Claims are added up in the mode "sum" and behind a shuffler, where a reply alone says too much. Elsewhere `view`
        says what the run's inputs are to the wallet's: to take another column for the same one would hide a loss.
        """
        view = self._checked(protocol, view)
        claim, flat = protocol.claim, self.terms.mode == "sum" or protocol.claim.trusts != "nobody"
        described = _described(protocol.name, protocol.parameters(), trusts, view)
        self._protocols.setdefault(described, protocol)
        if run in self._runs:
            if self._runs[run].described != described:
                raise RemoteProtocolError(f"the wallet has accepted other terms under the name {run}; use a new name")
            return self._runs[run].accepted.mask.copy()
        epsilon = units(claim.epsilon_for(trusts)) if flat else 0
        delta = math.ceil(Fraction(repr(float(claim.delta))) * DELTA_UNITS)
        mask = np.ones(self.terms.users, np.bool_)
        # Where nothing is charged yet, each round decides for itself.
        if epsilon or delta:
            mask = (self._total() + epsilon <= self._cap) & (self._delta + delta <= self._delta_cap)
        terms: dict[str, Any] = {
            "protocol": protocol.name,
            "parameters": protocol.parameters(),
            "trusts": trusts,
            "view": view,
        }
        self._enter(Accepted(run=run, **terms, flat=flat, epsilon=epsilon, delta=delta, mask=mask))
        return self._runs[run].accepted.mask.copy()

    def grant(self, run: str, number: int, public: Broadcast, asked: Mask | None = None) -> Mask:
        """Who of those asked may answer a round; reserved before this returns. The same question gets the same answer.

        One who cannot afford every possible reply stays silent in this round and for the rest of the run.
        """
        state = self._run(run)
        asked = np.ones(self.terms.users, np.bool_) if asked is None else np.asarray(asked, np.bool_)
        if asked.shape != (self.terms.users,):
            raise LocalProtocolError(f"the wallet is for {self.terms.users} users, and {asked.shape} were asked")
        if number in state.questions:
            known = state.questions[number].granted
            if pack(dict(known.broadcast)) != pack(dict(public)) or not np.array_equal(known.asked, asked):
                raise RemoteProtocolError(f"a second, different question in round {number} of run {run}")
            return known.mask.copy()
        if not max(state.questions, default=0) < number <= len(self._protocol(state).rounds):
            raise RemoteProtocolError(f"round {number} of run {run} comes out of order")
        may = asked & state.accepted.mask & ~state.silent
        reserved = 0
        if not state.accepted.flat:
            epsilon = self._step(state, number).epsilon
            reserved = units(epsilon)
            may &= self._affordable(state, number, public, epsilon, may)
        self._enter(
            Granted(run=run, round=number, broadcast=dict(public), reserved=reserved, asked=asked.copy(), mask=may)
        )
        return may.copy()

    def said(self, run: str, number: int, places: Integers, columns: Columns) -> None:
        """What users say to a granted question; when this returns it may be sent. Never two different replies."""
        state = self._run(run)
        if number not in state.questions:
            raise LocalProtocolError(f"round {number} of run {run} is answered before the wallet has granted it")
        question, step = state.questions[number], self._step(state, number)
        places = np.asarray(places, np.int64)
        check_arrays(f"replies in round {number} of run {run}", columns, {**step.reply, **step.public}, len(places))
        inside = bool(((places >= 0) & (places < self.terms.users)).all()) and len(np.unique(places)) == len(places)
        if not inside or not question.granted.mask[places].all():
            raise LocalProtocolError(f"the wallet does not let this user answer round {number} of run {run}")
        if not state.accepted.flat and not step.check(question.granted.broadcast, columns).all():
            raise LocalProtocolError(f"a reply in round {number} of run {run} lies outside its output space")
        again = question.said[places]
        for name, column in question.columns.items():
            if column[places[again]].tobytes() != np.ascontiguousarray(columns[name][again]).tobytes():
                raise LocalProtocolError(f"a second, different reply in round {number} of run {run}; it is not sent")
        if not again.all():
            fresh = {name: np.ascontiguousarray(column[~again]) for name, column in columns.items()}
            self._enter(Said(run=run, round=number, places=places[~again], columns=fresh))

    def spent(self) -> Spent:
        """An upper bound of what each user has given away, unanswered reservations at their worst."""
        total = self._total()
        # A reservation was granted because even its worst reply stays within the cap.
        total = np.where(self._pending > 0, np.minimum(total, self._cap), total)
        left = np.maximum(self._cap - total, 0) / EPSILON_UNITS
        return Spent(loss=total / EPSILON_UNITS, delta=self._delta / DELTA_UNITS, left=left)

    def could_answer(self, epsilon: float) -> Mask:
        """Who could answer any round of this epsilon; a round whose replies can be listed may have more."""
        could: Mask = self._total() + units(epsilon) <= self._cap
        return could

    @property
    def last_epsilon(self) -> float | None:
        """What was last reserved for an answer; None before the first run."""
        for state in reversed(self._runs.values()):
            asked = [question.granted.reserved for question in state.questions.values()]
            reserved = max([*asked, state.accepted.epsilon])
            if reserved:
                return reserved / EPSILON_UNITS
        return None

    def _enter(self, entry: Entry) -> None:
        if self._keep is not None:
            self._keep(entry)
        self.take(entry)

    def take(self, entry: Entry) -> None:
        """Let an entry count that was kept before."""
        if isinstance(entry, Accepted):
            described = _described(entry.protocol, entry.parameters, entry.trusts, entry.view)
            self._runs[entry.run] = _Run(entry, described, np.zeros(self.terms.users, np.bool_))
            self._flat[entry.mask] += entry.epsilon
            self._delta[entry.mask] += entry.delta
            return
        state = self._run(entry.run)
        account = None if state.accepted.flat else self._account(state)
        if isinstance(entry, Granted):
            state.questions[entry.round] = _Question(entry, np.zeros(self.terms.users, np.bool_))
            state.silent |= entry.asked & ~entry.mask
            self._pending[entry.mask] += entry.reserved
            if account is not None:
                account.answered.append((state, entry.round))
            return
        question = state.questions[entry.round]
        for name, column in entry.columns.items():
            if name not in question.columns:
                question.columns[name] = np.zeros((self.terms.users, *column.shape[1:]), column.dtype)
            question.columns[name][entry.places] = column
        question.said[entry.places] = True
        self._pending[entry.places] -= question.granted.reserved
        if account is not None and account.cache is not None:
            for part in parts(np.arange(len(entry.places)), account.inputs):
                said = {name: column[part] for name, column in entry.columns.items()}
                account.cache.add(entry.places[part], *self._channel(state, entry.round).of(said))

    def _run(self, run: str) -> _Run:
        if run not in self._runs:
            raise LocalProtocolError(f"the wallet has not accepted the run {run:.80}")
        return self._runs[run]

    def _protocol(self, state: _Run) -> Protocol:
        if state.described not in self._protocols:
            self._protocols[state.described] = self._build(state.accepted.protocol, state.accepted.parameters)
        return self._protocols[state.described]

    def _step(self, state: _Run, number: int) -> Round:
        return self._protocol(state).rounds[number - 1]

    def _checked(self, protocol: Protocol, view: View | None) -> View:
        """A view in its one form; BadInput where it does not fit the protocol's inputs."""
        if self.terms.mode == "sum" or protocol.claim.trusts != "nobody":
            return View()
        if view is None:
            raise LocalProtocolError(f"the wallet was not told what the inputs of {protocol.name} are; give a View")
        if view.domain is not None and pack(dict(view.domain)) == pack(dict(self.terms.domain)):
            view = View(coarsening=view.coarsening)
        if view.domain is not None and view.coarsening is not None:
            raise BadInput("a run is over another domain or over a coarsening of the wallet's, not both")
        if view.coarsening is not None:
            given = np.asarray(view.coarsening)
            whole = given.dtype.kind in "iu" and given.shape == (self.terms.inputs,)
            if not whole or given.min() < 0 or given.max() >= protocol.inputs:
                rule = f"a coarsening gives each of the wallet's {self.terms.inputs} inputs one of the run's"
                raise BadInput(f"{rule} {protocol.inputs}; this one does not")
            return View(coarsening=given.astype(np.int64))
        if view.domain is None and protocol.inputs != self.terms.inputs:
            what = f"the run has {protocol.inputs} inputs and the wallet {self.terms.inputs}"
            raise BadInput(f"{what}; give a coarsening or say that it is another domain")
        return view

    def _account(self, state: _Run) -> _Account:
        """The account of a run's domain, made when it is first needed."""
        view = state.accepted.view
        if view.domain is None:
            key, inputs = b"", self.terms.inputs
        else:
            inputs = self._protocol(state).inputs
            key = pack({"domain": dict(view.domain), "inputs": inputs})
        if key not in self._accounts:
            cached = self.terms.users * inputs <= MOST_CACHED
            self._accounts[key] = _Account(inputs, cache=Losses.none(self.terms.users, inputs) if cached else None)
        return self._accounts[key]

    def _channel(self, state: _Run, number: int) -> Channel:
        question = state.questions[number].granted
        return Channel(self._step(state, number), question.broadcast, state.accepted.view.coarsening)

    def _losses(self, account: _Account, places: Integers) -> Losses:
        """L of the users at these places: remembered, or worked out from what they said."""
        if account.cache is not None:
            return Losses(account.cache.log[places], account.cache.error[places])
        found = Losses.none(len(places), account.inputs)
        for state, number in account.answered:
            question = state.questions[number]
            spoke = np.flatnonzero(question.said[places])
            if len(spoke):
                said = {name: column[places[spoke]] for name, column in question.columns.items()}
                found.add(spoke, *self._channel(state, number).of(said))
        return found

    def _total(self, apart: _Account | None = None) -> Integers:
        """What each user has lost in whole units, but for one account."""
        total = self._flat + self._pending
        for account in self._accounts.values():
            if account is apart:
                continue
            for places in parts(np.arange(self.terms.users), account.inputs):
                total[places] = np.minimum(total[places] + self._losses(account, places).spent(), NEVER)
        return total

    def _affordable(self, state: _Run, number: int, public: Broadcast, epsilon: float, may: Mask) -> Mask:
        """Who stays within the cap whatever it replies."""
        account, found = self._account(state), np.zeros(self.terms.users, np.bool_)
        channel = Channel(self._step(state, number), public, state.accepted.view.coarsening)
        channel.check(epsilon)
        room = self._cap - self._total(apart=account)
        candidates = np.flatnonzero(may & (room >= 0))
        for places in parts(candidates, account.inputs):
            found[places] = channel.affordable(self._losses(account, places), epsilon, room[places])
        return found


def _described(name: str, parameters: Mapping[str, Any], trusts: Trust, view: View) -> bytes:
    domain = None if view.domain is None else dict(view.domain)
    return hashlib.sha256(pack([name, dict(parameters), trusts, domain, view.coarsening])).digest()
