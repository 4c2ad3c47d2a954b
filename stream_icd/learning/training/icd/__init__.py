"""Training of the paper's encoder (algorithm 2)."""
