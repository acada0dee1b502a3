"""What is asked: statistics, kernels and the domains of private values."""
