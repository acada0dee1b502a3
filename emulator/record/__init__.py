"""The transcript, the witness, and what is read from them: summary, replay, diff."""
