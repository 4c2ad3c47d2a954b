"""The refined mode: communities of one graph by local moves and belief propagation."""
