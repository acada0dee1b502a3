"""A run so small that every schedule can be tried: its processes, its network, and what must hold in each state."""
