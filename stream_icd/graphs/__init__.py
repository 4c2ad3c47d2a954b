"""A graph in memory, as both methods read it."""
