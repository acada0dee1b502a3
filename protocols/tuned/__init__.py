"""What the paper's ideas become with every constant worked out."""
