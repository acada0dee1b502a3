"""Randomizers of one bounded number."""
