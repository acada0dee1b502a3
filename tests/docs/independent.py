"""What docs/wire.md says, once more in plain Python: nothing of Parley is imported here.

It is slow and reads like the page. The tests hold it, Parley's own code and tests/vectors/wire.json against each other.
"""

import hashlib
import math
import struct
import sys
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import scipy
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
if str(EXAMPLES) not in sys.path:
    sys.path.insert(0, str(EXAMPLES))

import foreign_replies as replies  # noqa: E402
import foreign_wire as wire  # noqa: E402

WHOLE = 2**64
GRID = 2.0**24
Reply = dict[str, Any]


def words(coins: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(coins) // 8}Q", coins)


def guarded(epsilon: float) -> Fraction:
    return Fraction(epsilon) - Fraction(1, 2**44)


def exponential_upper(x: Fraction) -> Fraction:
    """At least e^x; below 0 from the lower bound of e^-x."""
    if x < 0:
        return Fraction(-(-(2**384) // int(replies.exponential_lower(-x) * 2**192)), 2**192)
    term, total, order = 2**192, 0, 0
    below = 2**192
    while order <= 2 * x or below:
        total, order = total + term, order + 1
        term = -(-term * x.numerator // (x.denominator * order))
        below = below * x.numerator // (x.denominator * order)
    return Fraction(total + 2 * term, 2**192)


def randomized_response(categories: int, epsilon: float, x: int, coins: bytes) -> Reply:
    rank = replies.rank_of(words(coins)[0], categories, 1, epsilon)
    return {"category": (x + rank) % categories if rank < categories else 0}


def unary_encoding(categories: int, epsilon: float, x: int, coins: bytes) -> Reply:
    threshold = math.ceil(2**32 / (1 + replies.exponential_lower(guarded(epsilon))))
    bits = [0] * (-(-categories // 8))
    for category, coin in enumerate(struct.unpack(f"<{categories}I", coins)):
        if coin < (2**31 if category == x else threshold):
            bits[category // 8] |= 1 << category % 8
    return {"bits": bits}


def subset_selection(categories: int, epsilon: float, size: int, x: int, coins: bytes) -> Reply:
    seed, coin = words(coins)
    key = replies.mix(seed)
    keys = [replies.mix((key + (each + 1) * 0x9E3779B97F4A7C15) % WHOLE) for each in range(categories)]
    place = sorted(range(categories), key=keys.__getitem__).index(x)
    rank = replies.rank_of(coin, categories, size, epsilon)
    return {"seed": seed, "shift": (place - rank) % categories if rank < categories else 0}


def usual_size(categories: int, epsilon: float) -> int:
    """w where a subset selection does not say it."""
    return max(1, round(categories / (1 + replies.exponential_lower(Fraction(epsilon)))))


def codebook(radius: float, epsilon: float, candidates: int, top: int, x: list[float], coins: bytes) -> Reply:
    seed, index = replies.codebook(x, radius, epsilon, candidates, top, *words(coins))
    return {"seed": seed, "index": index}


def blasiok(radius: float, epsilon: float, x: list[float], coins: bytes) -> Reply:
    seed, rounding, coin = words(coins)
    point = [round(each * (GRID / radius)) for each in x]
    norm = min(round(math.sqrt(sum(each * each for each in point)) * 2.0**8), 2**32)
    (direction,) = replies.directions(seed, 1, len(point))
    behind = sum(map(int.__mul__, direction, point)) < 0
    turned = rounding >> 31 >= 2**32 + norm
    rank = replies.rank_of(coin, 2, 1, epsilon)
    return {"seed": seed, "index": 0 if rank == 2 else int(behind ^ turned ^ (rank == 1))}


def one_bit(low: float, high: float, epsilon: float, x: float, coins: bytes) -> Reply:
    least = math.ceil(WHOLE / (1 + replies.exponential_lower(guarded(epsilon))))
    share = (min(max(x, low), high) - low) / (high - low)
    place = round(min(max(share, 0.0), 1.0) * 2.0**32)
    return {"bit": int(words(coins)[0] < least + (place * (WHOLE - 2 * least) >> 32))}


def laplace_weights(epsilon: float, distance: int, reach: int) -> tuple[list[int], int]:
    """(weights of noise 0, 1, ..., reach - 1, the weight of `reach`)"""
    step = guarded(epsilon) / distance
    ratio = replies.exponential_lower(step)
    numerator = math.floor(ratio * 2**128)

    def build(outermost: int) -> tuple[list[int], int, int]:
        end = -(-(outermost << 128) // (numerator - 2**128))
        weights = [outermost]
        for _ in range(reach - 1):
            weights.append(weights[-1] * numerator >> 128)
        weights.reverse()
        return weights, end, WHOLE - 2 * (end + sum(weights)) + weights[0]

    whole = exponential_upper(step * reach) * (1 + exponential_upper(-step))
    outermost = math.floor((WHOLE - 1) * (ratio - 1) / whole) - 1
    small = build(outermost)
    stride = outermost * small[2] // (WHOLE - small[2]) + 1
    while (large := build(outermost + stride))[2] >= 1:
        outermost, small = outermost + stride, large
    while stride > max(1, outermost >> 16):
        stride //= 2
        middle = build(outermost + stride)
        if middle[2] >= 1:
            outermost, small = outermost + stride, middle
            stride = large[0][-1] - outermost
        else:
            large = middle
    weights, end, leftover = list(small[0]), small[1], small[2]
    spare = leftover - 1
    raised = min(large[1] - end, spare // 2)
    end, spare = end + raised, spare - 2 * raised
    for place in range(reach - 1, 0, -1):
        raised = min(large[0][place] - weights[place], spare // 2)
        if raised <= 0 and spare < 2:
            break
        weights[place] += raised
        spare -= 2 * raised
    return weights, end


def grid_laplace(low: float, high: float, epsilon: float, sensitivity: float | None, x: float, coins: bytes) -> Reply:
    width = high - low if sensitivity is None else sensitivity
    tail = min(16.0, 30.0 - epsilon)
    most = 2**19 / (2.0 * (tail / epsilon + 1.0)) - 4.0
    unit = math.ldexp(1.0, math.ceil(math.log2(width / min(512.0, most))))
    first, last = math.floor(Fraction(low) / Fraction(unit)), math.ceil(Fraction(high) / Fraction(unit))
    distance = max(last - first, math.ceil(Fraction(width) / Fraction(unit)))
    margin = math.ceil(tail * distance / epsilon)
    reach = margin + last - first
    weights, end = laplace_weights(epsilon, distance, reach)
    rounding, coin = words(coins)
    scaled = min(max(x, low), high) / unit
    below = min(math.floor(scaled), last - 1)
    point = below + (rounding >> 32 < round((scaled - below) * 2.0**32))
    ends = list(accumulate([end, *reversed(weights[1:]), weights[0], *weights[1:], end]))
    place = bisect_right(ends, coin)
    if place == len(ends):
        return {"step": (first + last) // 2}
    return {"step": min(max(point + place - reach, first - margin), last + margin)}


def privunit(radius: float, epsilon: float, gamma: float, x: list[float], coins: bytes) -> Reply:
    """Floats: equal to Parley's up to rounding."""
    size, special = len(x) + 1, scipy.special
    unit_of = [((coin >> 11) + 0.5) * 2.0**-53 for coin in words(coins)]
    point = [float(round(each * (GRID / radius))) for each in x]
    point.append(float(round(math.sqrt(max(GRID**2 - sum(each * each for each in point), 0.0)))))
    norm = math.sqrt(sum(each * each for each in point))
    unit = [each / norm for each in point]
    cap = 0.5 * special.betaincc(0.5, (size - 1) / 2, gamma**2)
    inside = cap * math.exp(epsilon) / (1 + cap * math.expm1(epsilon))
    tail = unit_of[1] * cap if unit_of[0] < inside else cap + unit_of[1] * (1 - cap)
    height = math.sqrt(special.betainccinv(0.5, (size - 1) / 2, 2 * min(tail, 1 - tail)))
    height = height if tail < 0.5 else -height
    around = [float(special.ndtri(each)) for each in unit_of[2:]]
    along = sum(map(float.__mul__, around, unit))
    around = [each - along * own for each, own in zip(around, unit, strict=True)]
    length = math.sqrt(sum(each * each for each in around))
    across = math.sqrt(1 - height**2) / length
    return {"direction": [height * own + across * each for own, each in zip(unit, around, strict=True)]}


def skellam_bounds(variance: float) -> list[int]:
    """Where the 128-bit coins of -reach, ..., reach end."""
    x = Fraction(variance)
    following, current = 0, 2**384
    values = [current]
    for order in range(int(20 * math.sqrt(float(x)) + 160), 0, -1):
        following, current = current, following + 2 * order * x.denominator * current // x.numerator
        values.append(current)
    values.reverse()
    total = values[0] + 2 * sum(values[1:])
    weights = [(value << 128) // total for value in values]
    while weights[-1] == 0:
        weights.pop()
    weights[0] = 2**128 - 2 * sum(weights[1:])
    return list(accumulate([*reversed(weights[1:]), *weights]))


def split(shares: int, bits: int, variance: float, x: list[int], coins: bytes) -> Reply:
    bounds, drawn, rows = skellam_bounds(variance), words(coins), []
    for place, number in enumerate(x):
        high, low, *free = drawn[place * (shares + 1) : (place + 1) * (shares + 1)]
        noisy = number + bisect_right(bounds, high << 64 | low) - len(bounds) // 2
        rows.append([each % 2**bits for each in (*free, noisy - sum(free))])
    return {"shares": rows}


def seal(public: bytes, message: bytes, coins: bytes) -> bytes:
    ephemeral = X25519PrivateKey.from_private_bytes(coins)
    head = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    key = hashlib.sha256(b"parley seal" + shared + head + public).digest()
    return head + ChaCha20Poly1305(key).encrypt(bytes(12), message, None)


def tree_root(leaves: list[bytes]) -> bytes:
    """RFC 9162, 2.1.1, as it is written there."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    left = 1 << (len(leaves) - 1).bit_length() - 1
    return bytes(wire.parent(tree_root(leaves[:left]), tree_root(leaves[left:])))


def inclusion_path(index: int, leaves: list[bytes]) -> list[bytes]:
    """RFC 9162, 2.1.3.1."""
    if len(leaves) < 2:
        return []
    left = 1 << (len(leaves) - 1).bit_length() - 1
    if index < left:
        return [*inclusion_path(index, leaves[:left]), tree_root(leaves[left:])]
    return [*inclusion_path(index - left, leaves[left:]), tree_root(leaves[:left])]


def consistency_path(first: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """RFC 9162, 2.1.4.1."""
    if first == len(leaves):
        return [] if whole else [tree_root(leaves)]
    left = 1 << (len(leaves) - 1).bit_length() - 1
    if first <= left:
        return [*consistency_path(first, leaves[:left], whole), tree_root(leaves[left:])]
    return [*consistency_path(first - left, leaves[left:], False), tree_root(leaves[:left])]


def best_sum(dimension: int, candidates: int, top: int) -> float:
    """The expected sum of the inner products of the top candidates with a unit vector."""
    half, special = candidates // 2, scipy.special
    top = min(top, candidates - top)
    if dimension == 1:
        return 1.0

    def share(angle: float) -> float:
        below = special.betainc(0.5, (dimension - 1) / 2, math.sin(angle) ** 2)
        return float(special.betainc(half - top, top, below)) if top < half else 1.0

    constant = 2 * math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2)) / math.sqrt(math.pi)
    area, _ = scipy.integrate.quad(
        lambda a: constant * math.cos(a) ** (dimension - 2) * math.sin(a) * share(a), 0, math.pi / 2, epsabs=1e-13
    )
    return float(half * area)


def decoding(randomizer: str, parameters: dict[str, Any], dimension: int) -> tuple[float, float]:
    """(what one step of the integer sum is worth, what each reply adds besides)"""
    epsilon = parameters["epsilon"]
    if randomizer == "OneBit":
        least = math.ceil(WHOLE / (1 + replies.exponential_lower(guarded(epsilon))))
        half, middle = (parameters["high"] - parameters["low"]) / 2, (parameters["high"] + parameters["low"]) / 2
        return half * WHOLE / (WHOLE - 2 * least), middle
    if randomizer in ("Codebook", "Blasiok"):
        candidates, top = parameters.get("candidates", 2), parameters.get("top", 1)
        high, low = replies.two_level(candidates, top, epsilon)
        sum_of_best = best_sum(dimension + (randomizer == "Codebook"), candidates, top)
        return parameters["radius"] / ((high - low) / WHOLE * sum_of_best) / 2**36, 0.0
    if randomizer in ("LevelledSelection", "Channel", "FoldedChannel", "CodebookSeeds"):
        return 1.0, 0.0
    k = parameters["categories"]
    if randomizer == "OptimisedUnaryEncoding":
        own, other = 0.5, math.ceil(2**32 / (1 + replies.exponential_lower(guarded(epsilon)))) / 2**32
    else:
        w = parameters.get("size", 1)
        high, low = replies.two_level(k, w, epsilon)
        left, both = WHOLE - w * high - (k - w) * low, w * (w - 1) / (k - 1)
        own = w * (high + left / k) / WHOLE
        other = (both * high + (w - both) * low + left * w / k) / WHOLE
    return 1 / (own - other), -other / (own - other)
