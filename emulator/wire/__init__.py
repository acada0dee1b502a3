"""Messages and their bytes: codec, keys, signatures, sealed boxes."""
