"""One file a package: what its users would write. They run in an environment without Parley and print one record."""
