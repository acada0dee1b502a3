"""Choosing parameters, predicting errors, fast simulation. User nodes and the board never import it."""
