"""The neighbouring-input experiment: the recorded broadcasts again, one user's input swapped, a lower bound on epsilon.

Real roles answer, a resend included, so that what is measured is the program and not its formulas. An event is
chosen on one half of the trials and counted on the other; Clopper-Pearson bounds of its two probabilities bound
epsilon from below. The bound can show that a claim is false; it cannot show that it is true.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from parley.emulator.audit.privacy import Ledger
from parley.emulator.audit.statistics import ALPHA
from parley.emulator.audit.verdict import Verdict, failed, passed, spoken, unknown
from parley.emulator.errors import ParleyError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.randomizer import Columns, Floats
from parley.emulator.record.conversation import Answers, Conversation
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to, domain_of
from parley.emulator.wire.messages import NONCE_BYTES, Announce, Reminder, Replies, Setup

NODE = "trial"
PILOT = 512
TRIED = 96
BLOCK = 4096
THRESHOLDS = 64


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a distinguisher looks at: a feature of a user's replies, on one side of a threshold."""

    feature: str
    column: int
    threshold: float
    above: bool

    def holds(self, features: Floats) -> NDArray[np.bool_]:
        values = features[:, self.column]
        happened: NDArray[np.bool_] = values >= self.threshold if self.above else values < self.threshold
        return happened

    def __str__(self) -> str:
        return f"{self.feature} {'>=' if self.above else '<'} {self.threshold:.6g}"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One user's whole conversation, many times over, under any input."""

    setup: Setup
    protocol: Protocol
    questions: Mapping[int, Announce]
    key: bytes
    kind: type[CohortRole]

    def ledger(self, first: int, inputs: Inputs) -> tuple[Ledger, dict[str, Floats]]:
        """Likelihoods and readable features of everything these users say, resends included."""
        ledger = Ledger(np.arange(first, first + len(inputs)), self.protocol.inputs)
        features: dict[str, Floats] = {}
        role = self.kind(
            node=NODE,
            first=first,
            inputs=inputs,
            key=self.key,
            consent=consent_to(self.protocol, self.setup.run, self.setup.domain),
            build=lambda name, parameters: self.protocol,
            chunk=BLOCK,
        )
        list(role.hear(self.setup))
        for number, announce in sorted(self.questions.items()):
            step = self.protocol.rounds[number - 1]
            again = Reminder(run=self.setup.run, round=number, missing={NODE: ()})
            for said in (each for message in (announce, again) for each in role.hear(message)):
                if not isinstance(said, Replies):
                    continue
                ledger.take(Answers.of(said, step, announce.broadcast))
                for name, column in readable(said.columns).items():
                    whole = features.setdefault(f"round {number} {name}", np.zeros(len(inputs)))
                    whole[said.users - first] = column
        return ledger, features

    def pair(self, generator: np.random.Generator) -> tuple[int, int]:
        """The two inputs that replies tell apart best, from a few trials of every input."""
        tried = np.arange(self.protocol.inputs)
        if len(tried) > TRIED:
            tried = np.sort(generator.choice(tried, TRIED, replace=False))
        ledger, _ = self.ledger(0, tried[np.arange(PILOT) % len(tried)])
        rows = np.nan_to_num(ledger.sums[:, tried], neginf=-1e3)
        apart = np.array([np.abs(rows - rows[:, [place]]).mean(axis=0) for place in range(len(tried))])
        one, other = np.unravel_index(int(apart.argmax()), apart.shape)
        return int(tried[one]), int(tried[other])

    def trials(self, first: int, count: int, x: int, pair: tuple[int, int]) -> tuple[Floats, list[str]]:
        """Features of so many independent conversations of a user with input x: a row a trial."""
        blocks: list[Floats] = []
        names: list[str] = []
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            ledger, features = self.ledger(first + start, np.full(size, x, dtype=np.int64))
            ratio = np.nan_to_num(np.subtract(*ledger.sums[:, pair].T), posinf=1e3, neginf=-1e3)
            names = ["log-likelihood ratio", *features]
            blocks.append(np.column_stack([ratio, *features.values()]))
        return np.concatenate(blocks), names


def readable(columns: Columns) -> dict[str, Floats]:
    """What one can read off a reply without any formula: a scalar's value, and how fine a float's last digit is."""
    found: dict[str, Floats] = {}
    for name, column in columns.items():
        if column.ndim == 1:
            found[name] = column.astype(np.float64)
            if column.dtype.kind == "f":
                found[f"last digit of {name}"] = last_digit(found[name])
    return found


def last_digit(values: Floats) -> Floats:
    """The exponent of the lowest set bit: Mironov's attack reads it off a float to which float noise was added."""
    mantissa, exponent = np.frexp(np.where(values == 0, 1.0, values))
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    digits: Floats = exponent - 53 + np.log2((whole & -whole).astype(np.float64))
    return digits


def check_empirical(
    conversation: Conversation,
    trials: int,
    key: bytes,
    generator: np.random.Generator,
    *,
    kind: type[CohortRole] = CohortRole,
) -> Verdict:
    """A lower confidence bound on epsilon at level 1 - ALPHA from `trials` conversations under each of two inputs."""
    setup, protocol = spoken(conversation, exact=bool(conversation.announces))
    if not conversation.announces:
        return unknown("no round was announced")
    # Old setups have no nonce; users of today want one, and the coins of an experiment are fresh anyway.
    today = setup if setup.nonce else replace(setup, nonce=bytes(NONCE_BYTES), domain=domain_of(protocol.inputs))
    experiment = Experiment(setup=today, protocol=protocol, questions=conversation.questions, key=key, kind=kind)
    try:
        pair = experiment.pair(generator)
        tables = []
        for place, x in enumerate(pair):
            table, names = experiment.trials(PILOT + place * trials, trials, x, pair)
            tables.append(table)
            conversation.progress("empirical", place + 1, 2)
    except ParleyError as error:
        return unknown(f"the recorded broadcasts cannot be answered again: {error}")
    half = trials // 2
    event, swapped = choose_event(names, tables[0][:half], tables[1][:half], ALPHA, setup.delta)
    likely, unlikely = (tables[1], tables[0]) if swapped else (tables[0], tables[1])
    counts = [int(event.holds(each[half:]).sum()) for each in (likely, unlikely)]
    bound = lower_bound(counts[0], counts[1], trials - half, ALPHA, setup.delta)
    evidence = {
        "claim": setup.epsilon,
        "lower_bound": bound,
        "trials": trials,
        "inputs": list(pair),
        "event": str(event),
        "counts": counts,
        "alpha": ALPHA,
    }
    if bound > setup.epsilon:
        return failed(f"epsilon is at least {bound:.4g}, the claim is {setup.epsilon:g}: {event}", **evidence)
    return passed(**evidence)


def choose_event(names: list[str], one: Floats, other: Floats, alpha: float, delta: float) -> tuple[Event, bool]:
    """The event with the best bound on these trials; True where it is likelier under the other input."""
    best: tuple[float, Event, bool] | None = None
    for column, name in enumerate(names):
        both = np.concatenate([one[:, column], other[:, column]])
        for threshold in np.unique(np.quantile(both, np.linspace(0, 1, THRESHOLDS), method="closest_observation")):
            for above in (True, False):
                event = Event(feature=name, column=column, threshold=float(threshold), above=above)
                counts = int(event.holds(one).sum()), int(event.holds(other).sum())
                for swapped in (False, True):
                    bound = lower_bound(counts[swapped], counts[not swapped], len(one), alpha, delta)
                    if best is None or bound > best[0]:
                        best = bound, event, swapped
    assert best is not None
    return best[1], best[2]


def lower_bound(likely: int, unlikely: int, trials: int, alpha: float, delta: float) -> float:
    """log((p - delta) / q) with Clopper-Pearson's lower bound for p and upper bound for q, alpha/2 each; at least 0."""
    low = float(scipy.special.betaincinv(likely, trials - likely + 1, alpha / 2)) if likely else 0.0
    high = float(scipy.special.betaincinv(unlikely + 1, trials - unlikely, 1 - alpha / 2)) if unlikely < trials else 1.0
    return math.log((low - delta) / high) if low - delta > high else 0.0
