"""Memory between the windows of a graph: its state, its bytes, and detection with it."""
