"""The tree against RFC 9162 word for word: heads, proofs, and that a proof of something else proves nothing."""

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.emulator.record.merkle import EMPTY, Tree, is_consistent, is_included, leaf_hash

MOST = 20
DATA = [bytes([number]) * number for number in range(MOST)]
LEAVES = [leaf_hash(each) for each in DATA]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def split(size: int) -> int:
    """The largest power of two smaller than the size."""
    power = 1
    while 2 * power < size:
        power *= 2
    return power


def head(data: list[bytes]) -> bytes:
    """MTH of section 2.1.1, as it is written there."""
    if not data:
        return sha256(b"")
    if len(data) == 1:
        return sha256(b"\x00" + data[0])
    k = split(len(data))
    return sha256(b"\x01" + head(data[:k]) + head(data[k:]))


def path(index: int, data: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.3.1."""
    if len(data) == 1:
        return []
    k = split(len(data))
    if index < k:
        return [*path(index, data[:k]), head(data[k:])]
    return [*path(index - k, data[k:]), head(data[:k])]


def proof(first: int, data: list[bytes]) -> list[bytes]:
    """PROOF of section 2.1.4.1."""
    return subproof(first, data, True)


def subproof(first: int, data: list[bytes], whole: bool) -> list[bytes]:
    if first == len(data):
        return [] if whole else [head(data)]
    k = split(len(data))
    if first <= k:
        return [*subproof(first, data[:k], whole), head(data[k:])]
    return [*subproof(first - k, data[k:], False), head(data[:k])]


def tree(size: int = MOST) -> Tree:
    grown = Tree()
    for leaf in LEAVES[:size]:
        grown.append(leaf)
    return grown


def test_heads_are_those_of_the_definition_at_every_size() -> None:
    whole = tree()
    assert Tree().root() == EMPTY == head([])
    for size in range(MOST + 1):
        assert tree(size).root() == whole.root(size) == head(DATA[:size])
        assert len(tree(size)) == size
    assert len({whole.root(size) for size in range(MOST + 1)}) == MOST + 1


def test_every_leaf_of_every_size_has_the_path_of_the_definition() -> None:
    whole = tree()
    for size in range(1, MOST + 1):
        for index in range(size):
            found = whole.inclusion(index, size)
            assert list(found) == path(index, DATA[:size])
            assert is_included(LEAVES[index], index, size, found, head(DATA[:size]))


def test_every_pair_of_sizes_has_the_proof_of_the_definition() -> None:
    whole = tree()
    for size in range(1, MOST + 1):
        for first in range(1, size + 1):
            found = whole.consistency(first, size)
            assert list(found) == proof(first, DATA[:size])
            assert is_consistent(first, head(DATA[:first]), size, head(DATA[:size]), found)


def spoiled(steps: tuple[bytes, ...]) -> list[tuple[bytes, ...]]:
    """Every way to change, drop, add or swap one step."""
    zero = bytes(32)
    found = [(*steps[:at], zero, *steps[at + 1 :]) for at in range(len(steps))]
    found += [(*steps[:at], *steps[at + 1 :]) for at in range(len(steps))]
    found += [(*steps[:at], zero, *steps[at:]) for at in range(len(steps) + 1)]
    found += [(*steps[:at], steps[at], *steps[at:]) for at in range(len(steps))]
    return found + [steps[::-1]] * (steps != steps[::-1])


def test_no_other_leaf_place_size_head_or_path_is_included() -> None:
    whole = tree()
    for size in range(1, 10):
        root = whole.root(size)
        for index in range(size):
            steps = whole.inclusion(index, size)
            assert not any(is_included(LEAVES[index], index, size, each, root) for each in spoiled(steps))
            for other in range(-1, size + 2):
                if other != index:
                    assert not is_included(LEAVES[index], other, size, steps, root)
                    assert not is_included(LEAVES[other], index, size, steps, root)
            for claimed in range(-1, 2 * MOST):
                # A path with the same turns leads to the same head: that is why a head is signed with its size.
                if claimed != size and is_included(LEAVES[index], index, claimed, steps, root):
                    assert len(path(index, DATA[:1] * claimed)) == len(steps)
            assert not is_included(LEAVES[index], index, size, steps, whole.root(size + 1))


def test_no_other_head_size_or_proof_is_consistent() -> None:
    whole = tree()
    for size in range(1, 10):
        root = whole.root(size)
        for first in range(1, size + 1):
            before, steps = whole.root(first), whole.consistency(first, size)
            assert not any(is_consistent(first, before, size, root, each) for each in spoiled(steps))
            assert not is_consistent(first, bytes(32), size, root, steps)
            assert not is_consistent(first, before, size, bytes(32), steps)
            for other in range(1, MOST):
                if other != first:
                    assert not is_consistent(first, whole.root(other), size, root, steps)
                if other != size:
                    assert not is_consistent(first, before, size, whole.root(other), steps)
    for first, size in ((0, 5), (-1, 5), (6, 5), (0, 0)):
        assert not is_consistent(first, EMPTY, size, whole.root(max(size, 1)), ())


def test_a_rewritten_beginning_is_not_consistent() -> None:
    """Whatever proof somebody makes from the rewritten tree, the head seen before does not fit."""
    honest = tree()
    for changed in range(8):
        forged = Tree()
        for number, leaf in enumerate(LEAVES):
            forged.append(leaf_hash(b"forged") if number == changed else leaf)
        for first in range(changed + 1, 10):
            for size in range(first, 12):
                steps = forged.consistency(first, size)
                assert not is_consistent(first, honest.root(first), size, forged.root(size), steps)


def test_a_leaf_is_never_taken_for_an_inner_node() -> None:
    """An inner node's bytes as a leaf would let somebody prove what was never written."""
    left, right = LEAVES[0], LEAVES[1]
    assert leaf_hash(left + right) != tree(2).root()
    assert not is_included(leaf_hash(left + right), 0, 1, (), tree(2).root())


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=300), st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_tree_proves_any_leaf_and_any_beginning(data: list[bytes], choice: st.DataObject) -> None:
    grown = Tree()
    for each in data:
        grown.append(leaf_hash(each))
    size = choice.draw(st.integers(1, len(data)))
    index, first = choice.draw(st.integers(0, size - 1)), choice.draw(st.integers(1, size))
    assert grown.root(size) == head(data[:size])
    assert is_included(leaf_hash(data[index]), index, size, grown.inclusion(index, size), grown.root(size))
    assert is_consistent(first, grown.root(first), size, grown.root(size), grown.consistency(first, size))


@pytest.mark.parametrize(
    "ask",
    [
        lambda grown: grown.root(6),
        lambda grown: grown.root(-1),
        lambda grown: grown.inclusion(5, 5),
        lambda grown: grown.inclusion(-1, 5),
        lambda grown: grown.inclusion(0, 6),
        lambda grown: grown.consistency(0, 5),
        lambda grown: grown.consistency(5, 4),
        lambda grown: grown.consistency(1, 6),
    ],
)
def test_what_the_tree_does_not_have_it_does_not_prove(ask: object) -> None:
    with pytest.raises(IndexError):
        ask(tree(5))  # type: ignore[operator]


@given(st.lists(st.integers(0, 9), max_size=8))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_many_leaves_at_once_give_the_same_tree(parts: list[int]) -> None:
    one, many = Tree(), Tree()
    for part in parts:
        leaves = [leaf_hash(bytes([len(one) + number])) for number in range(part)]
        for leaf in leaves:
            one.append(leaf)
        many.extend(leaves)
        assert len(many) == len(one)
    for size in range(1, len(one) + 1):
        assert many.root(size) == one.root(size)
        assert [many.inclusion(index, size) for index in range(size)] == [
            one.inclusion(index, size) for index in range(size)
        ]
