"""Protocols of the shuffle model."""
