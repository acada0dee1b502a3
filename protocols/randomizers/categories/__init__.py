"""Randomizers of one category of k."""
