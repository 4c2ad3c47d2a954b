"""The paper's method, piece by piece: embed a graph with a frozen encoder, and cluster it."""
