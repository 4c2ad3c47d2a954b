"""How good communities are: against the truth (NMI, AC) or the graph (modularity, NCut)."""
