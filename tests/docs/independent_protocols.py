"""What the page says each protocol sends, in plain Python: nothing of Parley is imported here."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from tests.docs import independent, independent_channels

Columns = dict[str, Any]
Setup = dict[str, Any]
SIDE_SHARES = {"positive": 0.5, "diagonal": 0.0625}


class Factors:
    """L, R, A and D as rows of columns: `left[x]` is L e_x."""

    def __init__(self, parameters: Setup) -> None:
        workload = parameters["workload"]
        closed = None if "matrix" in workload else closed_form(workload)
        if "left" in parameters:
            self.left, self.right = parameters["left"].T.tolist(), parameters["right"].T.tolist()
            return
        if "factor" in parameters:
            vectors, signs = parameters["factor"].T.tolist(), parameters["signs"].tolist()
        else:
            assert closed is not None
            vectors, signs = closed
        if "rows" in parameters:
            kept = parameters["rows"].tolist()
            vectors, signs = [[each[row] for row in kept] for each in vectors], [signs[row] for row in kept]
        self.left, self.signs = vectors, signs
        self.right = [[sign * each for sign, each in zip(signs, vector, strict=True)] for vector in vectors]

    @property
    def radius(self) -> float:
        return max(norm(each) for each in (*self.left, *self.right))


def norm(vector: list[float]) -> float:
    return math.sqrt(sum(each * each for each in vector))


def closed_form(workload: Setup) -> tuple[list[list[float]], list[float]]:
    """(the columns of A, the diagonal of D)"""
    name, levels = workload["statistic"], workload["levels"]
    if name == "gini-diversity":
        rows = [[1.0] * j + [-float(j)] + [0.0] * (levels - j - 1) for j in range(1, levels)]
        scaled = [[each / math.sqrt(j * (j + 1)) for each in row] for j, row in enumerate(rows, 1)]
        return [list(column) for column in zip(*scaled, strict=True)], [-1.0] * (levels - 1)
    if name == "gini-mean-difference":
        points = np.linspace(0.0, 1.0, levels).tolist()
        weights = [math.sqrt((after - before) / 2) for before, after in pairwise(points)]
        return [[w if t < x else -w for t, w in enumerate(weights)] for x in range(levels)], [-1.0] * (levels - 1)
    first, second = (levels, 2) if name == "auc" else levels
    columns = []
    for x in range(first * second):
        (u0, u1), (v0, v1) = wave(first, x // second), wave(second, x % second)
        blocks = ((u0, v0, u1, v1, 1), (u0, v1, u1, v0, -1), (u0, v0, u1, v1, -1), (u0, v1, u1, v0, 1))
        columns.append(
            [
                (a * b + sign * c * d) * math.sqrt(0.5)
                for one, two, three, four, sign in blocks
                for a, c in zip(one, three, strict=True)
                for b, d in zip(two, four, strict=True)
            ]
        )
    half = len(columns[0]) // 2
    return columns, [1.0] * half + [-1.0] * half


def wave(size: int, place: int) -> tuple[list[float], list[float]]:
    thetas = [(2 * j + 1) * math.pi / size for j in range(size // 2)]
    weights = [math.sqrt(2 * abs(1 / math.tan(theta / 2)) / size) for theta in thetas]
    return (
        [w * math.cos(theta * place) for w, theta in zip(weights, thetas, strict=True)],
        [w * math.sin(theta * place) for w, theta in zip(weights, thetas, strict=True)],
    )


def largest(workload: Setup, *, shifted: bool) -> float:
    """The largest entry of W, or of W - cJ, in size."""
    if "matrix" in workload:
        return float(np.abs(workload["matrix"] - (workload["shift"] if shifted else 0.0)).max())
    if shifted and workload["statistic"] == "gini-diversity":
        return 1.0 - 1.0 / float(workload["levels"])
    return 0.5 if shifted and workload["statistic"] == "gini-mean-difference" else 1.0


def side_query(workload: Setup) -> tuple[str, list[float]] | None:
    if workload.get("statistic") == "auc":
        return "positive", [float(x % 2) for x in range(independent_channels.inputs_of(workload))]
    diagonal = np.diag(workload["matrix"]).tolist() if "matrix" in workload else [0.0]
    return ("diagonal", diagonal) if max(diagonal) > min(diagonal) else None


class Coins:
    """A row of coins that parts take from in turn."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        taken, self.data = self.data[:size], self.data[size:]
        return taken


def prefixed(name: str, columns: Columns) -> Columns:
    return {f"{name}.{each}": value for each, value in columns.items()}


def vector(name: str, x: list[float], radius: float, epsilon: float, parameters: Setup, coins: Coins) -> Columns:
    candidates, top = parameters.get("candidates", 16), parameters["top"]
    return prefixed(name, independent.codebook(radius, epsilon, candidates, top, x, coins.take(16)))


def scalar(name: str, x: float, low: float, high: float, epsilon: float, coins: Coins) -> Columns:
    return prefixed(name, independent.grid_laplace(low, high, epsilon, None, x, coins.take(16)))


def exact_range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = 1e-8 * max(abs(low), abs(high), 1e-100)
    return (low, high) if high - low > pad else (low - pad, high + pad)


def products(vectors: list[list[float]], point: list[float]) -> list[float]:
    return [math.fsum(a * b for a, b in zip(each, point, strict=True)) for each in vectors]


def side(parameters: Setup, x: int, coins: Coins) -> Columns:
    query = side_query(parameters["workload"])
    if query is None:
        return {}
    name, values = query
    epsilon = parameters["epsilon"] * SIDE_SHARES[name]
    return prefixed(name, independent.one_bit(min(values), max(values), epsilon, values[x], coins.take(8)))


def form_epsilon(parameters: Setup) -> float:
    """What the form may spend: epsilon less what the side query takes."""
    query = side_query(parameters["workload"])
    spent = parameters["epsilon"] * SIDE_SHARES[query[0]] if query else 0.0
    return float(parameters["epsilon"] - spent)


def reply(name: str, parameters: Setup, number: int, public: Columns, x: int, coins: Coins, user: int) -> Columns:
    """What a user with input x sends in a round."""
    if name == "linear-queries-by-reduction":
        return {
            f"{each}.{column}": value
            for each in ("first", "second")
            for column, value in reply(
                parameters[each]["protocol"], parameters[each]["parameters"], 1, {}, x, coins, user
            ).items()
        }
    if name == "binned":
        return binned(parameters, number, public, x, coins, user)
    workload, epsilon = parameters["workload"], parameters["epsilon"]
    k = independent_channels.inputs_of(workload)
    if name == "frequency-grr":
        return prefixed("category", independent.randomized_response(k, epsilon, x, coins.take(8)))
    if name == "frequency-oue":
        return prefixed("category", independent.unary_encoding(k, epsilon, x, coins.take(4 * k)))
    if name == "frequency-subset":
        return prefixed("category", subset(k, epsilon, x, coins))
    if name == "quantise":
        bins = parameters["bins"]
        return prefixed("category", independent.randomized_response(bins, epsilon, x * bins // k, coins.take(8)))
    if name == "hierarchical":
        depth = (k // 2 - 1).bit_length()
        nodes = [2 * (x // 2 >> depth - 1 - level) + x % 2 for level in range(depth)]
        sizes = [2 ** (level + 2) for level in range(depth)]
        return prefixed("node", levelled_selection(sizes, epsilon, nodes, coins.take(24)))
    if name == "two-round-black-box" and number == 1:
        inner = reply("linear-queries", parameters["oracle"], 1, {}, x, coins, user)
        return {**inner, **side(parameters, x, coins)}
    if name == "two-round-black-box":
        bound = largest(workload, shifted=False)
        return scalar("own", public["answers"][x], -bound, bound, form_epsilon(parameters) / 2, coins)
    if name in ("one-round-tuned", "two-round-tuned", "shuffled"):
        return tuned(parameters, public, x, coins, user)
    factors = Factors(parameters)
    if name == "linear-queries":
        radius = max(map(norm, factors.right))
        return vector("y", factors.right[x], radius, epsilon, parameters, coins)
    if name == "one-round":
        part = form_epsilon(parameters) / 2
        left = vector("y_L", factors.left[x], factors.radius, part, parameters, coins)
        right = vector("y_R", factors.right[x], factors.radius, part, parameters, coins)
        return {**left, **right, **side(parameters, x, coins)}
    if name == "two-round":
        part = form_epsilon(parameters) / 2
        if number == 1:
            left = vector("o_L", factors.left[x], factors.radius, part, parameters, coins)
            return {**left, **side(parameters, x, coins)}
        values = products(factors.right, public["O_L"].tolist())
        return scalar("inner", values[x], *exact_range(values), part, coins)
    if name == "three-round":
        return three_round(parameters, factors, number, public, x, coins)
    if name == "split-and-mix":
        return split_and_mix(parameters, factors, x, coins)
    raise AssertionError(f"nobody has read what the page says of {name}")


def binned(parameters: Setup, number: int, public: Columns, x: int, coins: Coins, user: int) -> Columns:
    """The node at one of the cuts, or what the inner protocol sends for the cell of x."""
    fine, inner = list(parameters["fine"]), parameters["inner"]["parameters"]
    places = [x // fine[1], x % fine[1]]
    if number == 1:
        nodes, sizes = [], []
        for place, levels in zip(places, fine, strict=True):
            widths = [1]
            while -(-levels // widths[0]) >= 8:
                widths.insert(0, 4 * widths[0])
            nodes += [place // width for width in widths]
            sizes += [-(-levels // width) for width in widths]
        return prefixed("node", levelled_selection(sizes, inner["epsilon"], nodes, coins.take(24)))
    cell, borders, levels = 0, public["borders"].tolist(), inner["workload"]["levels"]
    for place, many in zip(places, [levels, 2] if inner["workload"]["statistic"] == "auc" else levels, strict=True):
        own, borders = borders[: many - 1], borders[many - 1 :]
        cell = cell * many + sum(border <= place for border in own)
    rest = {each: array for each, array in public.items() if each != "borders"}
    return reply(parameters["inner"]["protocol"], inner, number - 1, rest, cell, coins, user)


def subset(k: int, epsilon: float, x: int, coins: Coins) -> Columns:
    return independent.subset_selection(k, epsilon, independent.usual_size(k, epsilon), x, coins.take(16))


def levelled_selection(categories: list[int], epsilon: float, x: list[int], coins: bytes) -> Columns:
    level = (independent.words(coins)[0] >> 32) * len(categories) >> 32
    return {"level": level, **subset(categories[level], epsilon, x[level], Coins(coins[8:]))}


def three_round(parameters: Setup, factors: Factors, number: int, public: Columns, x: int, coins: Coins) -> Columns:
    part, bound = form_epsilon(parameters) / 4, largest(parameters["workload"], shifted=True)
    if number == 1:
        right = vector("y_R", factors.right[x], factors.radius, part, parameters, coins)
        return {**right, **side(parameters, x, coins)}
    mu = public["mu"].tolist()
    if number == 2:
        left = vector("y_L", factors.left[x], factors.radius, part, parameters, coins)
        return {**left, **scalar("a", products(factors.left, mu)[x], -bound, bound, part, coins)}
    mean = public["Y"].tolist()
    value = products(factors.right, mean)[x] - products([mean], mu)[0]
    return scalar("v", value, -4 * bound, 4 * bound, part, coins)


def tuned(parameters: Setup, public: Columns, x: int, coins: Coins, user: int) -> Columns:
    """One index of a codebook, one output of the table in the setup, or of the table that was broadcast."""
    spent, name = parameters.get("local_epsilon", parameters["epsilon"]), "answer" if public else "candidate"
    if public and not public["again"]:
        row, share = divmod(int(public["position"][x]), 2**16)
        row, share = (row, share) if row < 20 else (19, 2**16)
        above, below = (public["table"][each].tolist() for each in (row, row + 1))
        weights = [(2**16 - share) * a + share * b for a, b in zip(above, below, strict=True)]
        found = independent_channels.channel([weights], spent, 0, coins.take(8))
        return prefixed(name, found if "strategy" in parameters else {"index": found["output"]})
    if "strategy" in parameters:
        place = independent_channels.place_of(user, parameters["salt"], parameters["folds"])
        table, row = parameters["strategy"].tolist(), coins.take(8)
        found = independent_channels.folded_channel(table, spent, parameters["folds"], [x, place], row)
        return prefixed(name, found)
    vectors = independent_channels.embedded(parameters["workload"], parameters["power"])
    chosen = {name: parameters[name] for name in ("seeds", "candidates", "top", "folds")}
    sends_place = chosen["sends_place"] = "local_epsilon" in parameters
    place = independent_channels.place_of(user, parameters["salt"], parameters["seeds"] * parameters["folds"])
    radius, row = float(np.sqrt((vectors**2).sum(axis=1)).max()), coins.take(16 if sends_place else 8)
    own = x if sends_place else [x, place]
    found = independent_channels.codebook_seeds(vectors.tolist(), radius, spent, **chosen, x=own, coins=row)
    return prefixed(name, found)


def split_and_mix(parameters: Setup, factors: Factors, x: int, coins: Coins) -> Columns:
    value, query = list(factors.left[x]), side_query(parameters["workload"])
    if query is not None:
        low, high = min(query[1]), max(query[1])
        value.append(parameters["weight"] * (2 * (query[1][x] - low) / (high - low) - 1))
    numbers = [round(each * 2.0 ** parameters["fraction"]) for each in value]
    chosen = {name: parameters[name] for name in ("shares", "bits", "variance")}
    return independent.split(**chosen, x=numbers, coins=coins.take(8 * len(numbers) * (parameters["shares"] + 1)))


def participates(parameters: Setup, number: int, user: int) -> bool:
    """Whether a user answers in a round."""
    if "inner" in parameters:
        about_margins = independent_channels.group_of(user, parameters["salt"], parameters["share"]) == 0
        if number == 1 or about_margins:
            return about_margins == (number == 1)
        return participates(parameters["inner"]["parameters"], number - 1, user)
    if "share" not in parameters:
        return True
    return independent_channels.group_of(user, parameters["salt"], parameters["share"]) == number - 1
