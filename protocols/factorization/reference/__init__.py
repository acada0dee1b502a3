"""Factorizations by semidefinite programs and rank reductions, for small inputs."""
