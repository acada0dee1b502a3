"""Explicit channels: tables of integer weights, and where such tables come from."""
