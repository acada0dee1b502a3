"""Factorizations W = L'R with certified bounds on gamma_2(W)."""
