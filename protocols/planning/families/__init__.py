"""One planning per family of protocols."""
