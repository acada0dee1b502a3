"""Roles of a run with several boards."""
