"""Randomizers whose replies only a shuffler may see."""
