"""Parley beside other packages that do the same work on the same machine: `python -m benchmarks.others`."""
