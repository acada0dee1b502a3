"""The nearest point of a convex set: Theorem proj for the l1 ball and the simplex."""
