"""One file a command of `parley`, each with one click command of the same name; launch/cli.py lists them."""
