"""Models: their content, storage and lookup."""
