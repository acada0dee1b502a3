"""What a run leaves behind, and what people read from it."""
