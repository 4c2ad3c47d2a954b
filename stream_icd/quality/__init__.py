"""Quality of communities: against the true labels (NMI, AC) or the graph (modularity, NCut)."""
