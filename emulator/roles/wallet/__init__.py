"""What users may give away over many runs, and what they have given away."""
