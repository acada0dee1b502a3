"""How the checks read a record: conversation, replies, heads, ledgers, samples."""
