"""The paper: statistics, factorizations, randomizers, and one file for each protocol."""
