"""Quality of communities: against the true labels (NMI, AC) or the graph (modularity, NCut).

Every metric takes communities as integer labels `(n,)`, any values. It raises `BadSettings` for
other shapes or types, and where they do not fit each other, or the graph.
"""
