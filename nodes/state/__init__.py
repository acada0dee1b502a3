"""What processes keep on disk: whole, or refused."""
