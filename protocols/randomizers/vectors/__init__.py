"""Randomizers of vectors (the paper's VRand)."""
