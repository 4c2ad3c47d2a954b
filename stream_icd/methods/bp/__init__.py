"""The method bp: communities of one graph by local moves and belief propagation."""
