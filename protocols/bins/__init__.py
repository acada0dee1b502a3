"""Bins that follow the data, found privately, around any protocol of ranks."""
