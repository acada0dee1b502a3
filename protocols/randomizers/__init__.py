"""Local randomizers: exact likelihoods, integer-decided probabilities."""
