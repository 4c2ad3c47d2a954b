"""The communities of one graph that describe it in the fewest bits, for any K or a given one."""
