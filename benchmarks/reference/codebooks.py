"""The codebook with the smallest variance; protocols choose theirs by the error of the whole estimate."""

from parley.protocols.randomizers.exact import check_count
from parley.protocols.randomizers.vectors.codebook import MOST_CANDIDATES, Codebook


def best_codebook(*, dimension: int, radius: float, epsilon: float, max_candidates: int = 16) -> Codebook:
    """The codebook of at most so many candidates with the smallest variance; of equals, the smaller one."""
    check_count("max_candidates", max_candidates, 2, MOST_CANDIDATES)
    sizes = range(2, max_candidates + 1, 2) if max_candidates <= 64 else (max_candidates // 2 * 2,)
    tuned = [Codebook(dimension=dimension, radius=radius, epsilon=epsilon, candidates=size) for size in sizes]
    return min(tuned, key=lambda codebook: codebook.variance)
