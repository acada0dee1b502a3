"""Starting processes: a warm process that forks, command lines, limits of the machine."""
