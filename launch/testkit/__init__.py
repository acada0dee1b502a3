"""`parley test`: what a protocol owes its users, checked stage by stage, with a verdict and evidence for each check."""
