"""State machines without clock, socket, logger or random state: (state, message) -> state."""
