"""Thin processes: a role, a transport, a state on disk."""
