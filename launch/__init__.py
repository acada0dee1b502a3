"""People's door: the `parley` command, local clusters and reports."""
