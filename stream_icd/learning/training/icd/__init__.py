"""Training of the paper's encoder (algorithm 3)."""
