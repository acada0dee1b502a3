"""Thin processes: a role, a transport, a journal on disk."""
