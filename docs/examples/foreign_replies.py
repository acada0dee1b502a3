"""What foreign_node.py needs of docs/wire.md to answer: coins, two randomizers, and what two protocols send.

Plain Python, for reading rather than for speed, and not one import from Parley.
"""

import hashlib
import hmac
import math
import struct
from fractions import Fraction
from functools import cache
from statistics import NormalDist

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from foreign_wire import Refused

WHOLE = 2**64


def coins(key, question, first, place, size):
    """The coins of user first + place, as 64-bit words."""
    stream = hmac.new(key, b"parley coins" + question, hashlib.sha256).digest()
    blocks, (segment, place) = -(-size // 64), divmod(first + place, 2**16)
    nonce = struct.pack("<IIQ", place * blocks, 0, segment)
    data = Cipher(ChaCha20(stream, nonce), mode=None).encryptor().update(bytes(size))
    return struct.unpack(f"<{size // 8}Q", data)


def mark_of(key, inputs):
    """Tells these inputs from others: under the same coins another input would show how the two differ."""
    return hmac.new(key, b"parley inputs" + np.array(inputs, dtype="<i8").tobytes(), hashlib.sha256).digest()


def exponential_lower(x):
    """A rational at most e^x, for x >= 0."""
    term, total, order = 2**192, 0, 0
    while order <= 2 * x or term:
        total, order = total + term, order + 1
        term = term * x.numerator // (x.denominator * order)
    return Fraction(total, 2**192)


@cache
def two_level(outcomes, favoured, epsilon):
    """(coin values of each favoured outcome, of each other one)"""
    ratio = exponential_lower(Fraction(epsilon) - Fraction(1, 2**44))
    low = math.floor(WHOLE / (favoured * ratio + (outcomes - favoured)))
    return math.floor(ratio * low), low


def rank_of(coin, outcomes, favoured, epsilon):
    """0 .. outcomes - 1, the favoured first; `outcomes` where the coin is one that no outcome uses."""
    high, low = two_level(outcomes, favoured, epsilon)
    if coin < favoured * high:
        return coin // high
    return min(favoured + (coin - favoured * high) // low, outcomes)


@cache
def lanes():
    """The 65536 integers that 16 bits of a word stand for."""
    borders = [-NormalDist().inv_cdf(number / 65536) for number in range(1, 32769)]
    density = np.array([0.0, *np.exp(-0.5 * np.array(borders) ** 2) / np.sqrt(2.0 * np.pi)])
    upper = 2.0 * np.floor(65536 * 7168 * np.diff(density) / 2.0) + 1.0
    table = np.concatenate([-upper, upper[::-1]]).astype("<i2")
    digest = "bd2dc2f62b5cd474b84678676c3f3d6cf11639678ffdf1a564df5861d597ba8b"
    if hashlib.sha256(table.tobytes()).hexdigest() != digest:
        raise RuntimeError("this machine's logarithms make another table; take the one in tests/vectors/wire.json")
    return table.tolist()


def mix(word):
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % WHOLE
    word = (word ^ word >> 27) * 0x94D049BB133111EB % WHOLE
    return word ^ word >> 31


def directions(seed, count, dimension):
    size, key = -(-dimension // 4), mix(seed)
    words = [mix((key + (number + 1) * 0x9E3779B97F4A7C15) % WHOLE) for number in range(count * size)]
    flat = [lanes()[word >> shift & 0xFFFF] for word in words for shift in (0, 16, 32, 48)]
    return [flat[4 * size * each : 4 * size * each + dimension] for each in range(count)]


def codebook(vector, radius, epsilon, candidates, top, seed, coin):
    """(seed, index)"""
    point = [round(each * (2.0**24 / radius)) for each in vector]
    point.append(round(math.sqrt(max(2**48 - sum(each * each for each in point), 0))))
    found = directions(seed, candidates // 2, len(point))
    scores = [sum(map(int.__mul__, each, point)) / math.sqrt(sum(map(int.__mul__, each, each))) for each in found]
    order = sorted(range(candidates), key=([-each for each in scores] + scores).__getitem__)
    return seed, [*order, 0][rank_of(coin, candidates, top, epsilon)]


class Protocol:
    """What a setup describes, if it is one of the two this node speaks."""

    def __init__(self, name, parameters):
        own = {"frequency-grr": {"cautious"}, "one-round": {"top"}}
        if name not in own or set(parameters) != {"workload", "epsilon", "users"} | own[name]:
            raise Refused(f"this node does not speak {name} with these parameters")
        workload, self.epsilon, self.name = parameters["workload"], parameters["epsilon"], name
        if type(workload) is not dict or set(workload) != {"statistic", "levels"}:
            raise Refused("this node does not know such a statistic")
        if workload["statistic"] != "gini-diversity" and (name == "one-round" or workload["statistic"] != "kendall"):
            raise Refused(f"this node does not speak {name} about {workload['statistic']}")
        levels = workload["levels"] if workload["statistic"] == "kendall" else [workload["levels"]]
        if type(levels) is not list or not all(type(each) is int and 2 <= each <= 2**10 for each in levels):
            raise Refused("levels that are not small numbers")
        self.inputs, self.levels = int(np.prod(levels)), levels
        self.top = parameters.get("top", 1)
        if type(self.epsilon) is not float or not 2.0**-19 <= self.epsilon <= 32 or self.top not in range(1, 9):
            raise Refused("parameters outside their bounds")

    def columns(self, inputs, coins):
        """`coins` makes the words of the i-th user."""
        if self.name == "frequency-grr":
            ranks = [rank_of(coins(i, 8)[0], self.inputs, 1, self.epsilon) for i in range(len(inputs))]
            sent = [
                (x + rank) % self.inputs if rank < self.inputs else 0 for x, rank in zip(inputs, ranks, strict=True)
            ]
            return {"category.category": np.array(sent, dtype="<u4")}
        columns = {}
        # L and R = -L, each through a codebook of 16 candidates with half of epsilon.
        radius = math.sqrt(1.0 - 1.0 / self.inputs)
        for side, (name, sign) in enumerate((("y_L", 1.0), ("y_R", -1.0))):
            rows = []
            for i, x in enumerate(inputs):
                seed, coin = coins(i, 32)[2 * side : 2 * side + 2]
                entries = [(j, -j if x == j else x < j) for j in range(1, self.inputs)]
                vector = [sign * entry / math.sqrt(j * (j + 1)) for j, entry in entries]
                rows.append(codebook(vector, radius, self.epsilon / 2, 16, self.top, seed, coin))
            columns[f"{name}.seed"] = np.array([seed for seed, _ in rows], dtype="<u8")
            columns[f"{name}.index"] = np.array([index for _, index in rows], dtype="u1")
        return columns
