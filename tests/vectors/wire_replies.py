"""Vectors of replies for docs/wire.md: seed expansion, randomizers, and what each protocol sends."""

import base64
import hashlib
import zlib
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reference.blasiok import Blasiok
from benchmarks.reference.privunit import PrivUnit
from parley.emulator.coins import coins, question_of, terms_of
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol
from parley.emulator.randomizer import Randomizer
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Setup
from parley.protocols.randomizers.categories.levelled import LevelledSelection
from parley.protocols.randomizers.categories.oue import OptimisedUnaryEncoding
from parley.protocols.randomizers.categories.randomized_response import RandomizedResponse
from parley.protocols.randomizers.categories.subset_selection import SubsetSelection
from parley.protocols.randomizers.channels.channel import Channel
from parley.protocols.randomizers.channels.codebook_seeds import CodebookSeeds
from parley.protocols.randomizers.channels.folded_channel import FoldedChannel
from parley.protocols.randomizers.exact import TwoLevel, exponential_lower, exponential_upper, guarded
from parley.protocols.randomizers.scalars.grid_laplace import GridLaplace
from parley.protocols.randomizers.scalars.one_bit import OneBit
from parley.protocols.randomizers.shuffled.shares import Shares
from parley.protocols.randomizers.shuffled.skellam import Skellam
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.randomizers.vectors.expansion import all_directions, expand_words, table
from parley.protocols.registry import design, names
from parley.protocols.workloads.choice import make_workload
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload

RUN, NONCE = "survey", bytes(range(16))
KEY = hashlib.sha256(b"a coin key").digest()


def column(values: NDArray[Any]) -> dict[str, Any]:
    """An array as its type, its dimensions and its bytes on the wire."""
    little = values.astype(values.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "shape": list(values.shape), "hex": little.tobytes().hex()}


def expansion_vectors() -> dict[str, Any]:
    """The table of lanes in full, and words and directions of a few seeds."""
    lanes = table().astype("<i2").tobytes()
    seeds = np.array([0, 1, 2**64 - 1, 0x0123456789ABCDEF], dtype=np.uint64)
    return {
        "table": base64.b64encode(zlib.compress(lanes, 9)).decode(),
        "table_sha256": hashlib.sha256(lanes).hexdigest(),
        "words": [
            {"seed": f"{int(seed):016x}", "words": [f"{int(word):016x}" for word in row]}
            for seed, row in zip(seeds, expand_words(seeds, np.arange(3, dtype=np.uint64)), strict=True)
        ],
        "directions": [
            {"seed": f"{int(seed):016x}", "dimension": 6, "directions": rows.astype(int).tolist()}
            for seed, rows in zip(seeds, all_directions(seeds, 2, 6), strict=True)
        ],
    }


def exact_vectors() -> dict[str, Any]:
    """Bounds of e^x, over 2^192, and choices with two probabilities."""
    points = [Fraction(0), Fraction(1), Fraction(1, 3), Fraction(-1, 3), Fraction(32), guarded(1.0)]
    return {
        "exponentials": [
            {
                "x": [x.numerator, x.denominator],
                "lower": f"{int(exponential_lower(x) * 2**192):x}",
                "upper": f"{int(exponential_upper(x) * 2**192):x}",
            }
            for x in points
        ],
        "choices": [
            {"outcomes": m, "top": t, "epsilon": epsilon, "high": f"{found.high:x}", "low": f"{found.low:x}"}
            for m, t, epsilon in ((2, 1, 1.0), (5, 1, 2.0), (16, 6, 0.5), (1 << 20, 1, 8.0))
            for found in [TwoLevel(outcomes=m, top=t, epsilon=epsilon)]
        ],
    }


def rows_of(name: str, size: int, count: int = 6) -> NDArray[np.uint8]:
    """Coins at both ends, and some in between."""
    drawn = [hashlib.shake_128(f"{name} {each}".encode()).digest(size) for each in range(count)]
    return np.array([list(row) for row in (bytes(size), b"\xff" * size, *drawn)], dtype=np.uint8)


WEIGHTS = [[2**30, 2**30, 2**31, 0], [2**31, 2**30, 2**30, 0], [2**30, 2**31, 2**30, 0]]
ALL_SENT = [[9, 4, 3], [4, 9, 3], [6, 4, 6]]
SEEDED: dict[str, Any] = {"radius": 1.0, "epsilon": 1.0, "seeds": 5, "candidates": 16, "top": 6, "folds": 2}
Case = tuple[Randomizer, dict[str, Any], NDArray[Any]]


def randomizer_cases() -> list[Case]:
    """Every randomizer, its parameters, and values to hide."""
    vectors = np.array([[1.0, 0.0, 0.0], [0.3, -0.4, 0.1], [0.0, 0.0, 0.0], [-0.6, 0.8, 0.0]])
    return [
        (RandomizedResponse(categories=5, epsilon=2.0), {"categories": 5, "epsilon": 2.0}, np.array([0, 4, 2])),
        (OptimisedUnaryEncoding(categories=11, epsilon=1.0), {"categories": 11, "epsilon": 1.0}, np.array([0, 10])),
        (
            SubsetSelection(categories=9, epsilon=1.0),
            {"categories": 9, "epsilon": 1.0, "size": SubsetSelection(categories=9, epsilon=1.0).width},
            np.array([0, 8, 5]),
        ),
        (
            LevelledSelection(categories=(4, 8, 16), epsilon=1.0),
            {"categories": [4, 8, 16], "epsilon": 1.0},
            np.array([[0, 0, 0], [3, 7, 15], [1, 2, 5]]),
        ),
        (OneBit(low=-1.0, high=3.0, epsilon=0.5), {"low": -1.0, "high": 3.0, "epsilon": 0.5}, np.array([-2.0, 0.3])),
        (
            GridLaplace(low=-0.7, high=1.1, epsilon=2.0),
            {"low": -0.7, "high": 1.1, "epsilon": 2.0, "sensitivity": None},
            np.array([0.123, 5.0, -0.7]),
        ),
        (
            GridLaplace(low=0.0, high=1.0, epsilon=1.0, sensitivity=3.0),
            {"low": 0.0, "high": 1.0, "epsilon": 1.0, "sensitivity": 3.0},
            np.array([1.0, 0.333]),
        ),
        (
            Codebook(dimension=3, radius=1.0, epsilon=1.0, candidates=16, top=6),
            {"radius": 1.0, "epsilon": 1.0, "candidates": 16, "top": 6},
            vectors,
        ),
        (
            Codebook(dimension=3, radius=1.7, epsilon=4.0, candidates=300, top=40),
            {"radius": 1.7, "epsilon": 4.0, "candidates": 300, "top": 40},
            vectors,
        ),
        (
            Channel(weights=np.array(WEIGHTS), epsilon=1.0),
            {"weights": WEIGHTS, "epsilon": 1.0},
            np.array([0, 2, 1]),
        ),
        (
            FoldedChannel(weights=np.array(ALL_SENT), epsilon=1.0, folds=4),
            {"weights": ALL_SENT, "epsilon": 1.0, "folds": 4},
            np.array([[0, 3], [2, 0], [1, 1]]),
        ),
        *(
            (
                CodebookSeeds(vectors=vectors, sends_place=sent, **SEEDED),
                {"vectors": vectors.tolist(), "sends_place": sent, **SEEDED},
                np.array([3, 1]) if sent else np.array([[0, 5], [3, 9], [2, 0]]),
            )
            for sent in (False, True)
        ),
        (Blasiok(dimension=3, radius=1.0, epsilon=1.0), {"radius": 1.0, "epsilon": 1.0}, vectors),
        (
            PrivUnit(dimension=3, radius=1.0, epsilon=1.0, gamma=0.25),
            {"radius": 1.0, "epsilon": 1.0, "gamma": 0.25},
            vectors,
        ),
    ]


def decoding_vectors() -> list[dict[str, Any]]:
    """What a step of the integer sum of replies is worth, and what each reply adds besides."""
    return [
        {
            "randomizer": type(randomizer).__name__,
            "parameters": parameters,
            "dimension": inputs.shape[-1],
            "unit": randomizer.unit,
            "offset": randomizer.offset,
        }
        for randomizer, parameters, inputs in randomizer_cases()
    ]


def randomizer_vectors() -> list[dict[str, Any]]:
    """Replies of every randomizer for given coins and inputs."""
    found = []
    for randomizer, parameters, inputs in randomizer_cases():
        name = type(randomizer).__name__
        rows = rows_of(name, randomizer.coins)
        if isinstance(randomizer, PrivUnit):
            # The last coin of all stands for a number that is not below 1 in double precision.
            rows = rows[2:]
        for place, row in enumerate(rows):
            x = inputs[place % len(inputs)]
            reply = randomizer.sample(np.array([x], dtype=np.float64), row[None])
            found.append(reply_vector(name, parameters, x.tolist(), row, {n: c[0] for n, c in reply.items()}))
    return [*found, *share_vectors()]


def share_vectors() -> list[dict[str, Any]]:
    """Shares hide a number among those of others."""
    encoder = Shares(dimension=2, shares=3, bits=20, noise=Skellam(2.5))
    numbers = np.array([[7, -9], [0, 1000]])
    return [
        reply_vector(
            "Shares",
            {"shares": 3, "bits": 20, "variance": 2.5},
            numbers[place % 2].tolist(),
            row,
            {"shares": encoder.sample(numbers[place % 2][None], row[None])[""][0]},
        )
        for place, row in enumerate(rows_of("Shares", encoder.coins))
    ]


def reply_vector(name: str, parameters: dict[str, Any], x: Any, row: NDArray[np.uint8], reply: Any) -> dict[str, Any]:
    return {
        "randomizer": name,
        "parameters": parameters,
        "input": x,
        "coins": row.tobytes().hex(),
        "reply": {each: column(np.asarray(values)) for each, values in reply.items()},
    }


KERNEL = np.array([[0.0, 1.0, 0.5], [1.0, 0.25, 0.75], [0.5, 0.75, 0.0]])
STATISTICS: tuple[Workload, ...] = (
    make_workload("kendall", "3x4", None),
    make_workload("gini-diversity", "4", None),
    make_workload("gini-mean-difference", "5", None),
    make_workload("auc", "4", None),
    Kernel(KERNEL),
)
# Enough inputs for a codebook, where fewer get a table.
MANY = make_workload("gini-mean-difference", "40", None)
USERS, SHOWN = 400, 3


def protocol_vectors() -> list[dict[str, Any]]:
    """A few users' replies in every round of every protocol about several statistics.

    Broadcasts are sums of floats, so that another machine may make others; what follows from them it makes alike.
    """
    vectors = []
    for name in names("shuffler"):
        for workload in (*STATISTICS, MANY) if name in ("one-round-tuned", "two-round-tuned") else STATISTICS:
            with suppress(BadInput):
                protocol = design(name, workload, epsilon=EPSILONS.get(name, 2.0), users=USERS)
                vectors += [spoken(workload.name, *each) for each in rounds_of(protocol)]
    return vectors


EPSILONS = {"split-and-mix": 1.0, "shuffled": 1.0}


def rounds_of(protocol: Protocol) -> list[tuple[Protocol, Setup, Announce]]:
    """The setup and each broadcast of a run; behind a shuffler there is one round."""
    inputs = np.random.default_rng(1).integers(0, protocol.inputs, USERS)
    claim = protocol.claim
    if claim.trusts == "shuffler":
        setup = Setup(
            run=RUN,
            protocol=protocol.name,
            parameters=protocol.parameters(),
            epsilon=claim.epsilon,
            delta=claim.delta,
            rounds=1,
            version=protocol.version,
            domain={"inputs": protocol.inputs},
            nonce=NONCE,
        )
        return [(protocol, setup, Announce(run=RUN, round=1, broadcast={}, speakers=USERS))]
    said = [message for _, message in conversation(protocol, inputs, KEY, run=RUN)]
    (setup,) = (message for message in said if isinstance(message, Setup))
    return [(protocol, setup, message) for message in said if isinstance(message, Announce)]


def spoken(statistic: str, protocol: Protocol, setup: Setup, announce: Announce) -> dict[str, Any]:
    """What the first users who speak in a round say."""
    inputs = np.random.default_rng(announce.round).integers(0, protocol.inputs, USERS)
    step = protocol.rounds[announce.round - 1]
    places = np.flatnonzero(step.participates(np.arange(USERS)))[:SHOWN]
    return {
        "protocol": protocol.name,
        "statistic": statistic,
        "setup": encode(setup).hex(),
        "announce": encode(announce).hex(),
        "coin_key": KEY.hex(),
        "silent": [int(each) for each in range(int(places[-1])) if each not in places],
        "users": [
            {
                "user": int(user),
                "input": int(inputs[user]),
                "reply": drawn(protocol, setup, announce, user, inputs[user]),
            }
            for user in places
        ],
    }


def drawn(protocol: Protocol, setup: Setup, announce: Announce, user: int, x: int) -> dict[str, Any]:
    """One user's reply, column by column."""
    step, question = protocol.rounds[announce.round - 1], question_of(terms_of(setup), announce)
    flips = coins(KEY, question, int(user), 1, step.coins)
    found = step.respond(announce.broadcast, np.array([x]), flips, np.array([user]))
    return {name: column(np.asarray(values[0])) for name, values in sorted(found.items())}
