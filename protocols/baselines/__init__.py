"""Baselines: histograms by frequency oracles, quantisation, hierarchical histograms."""
