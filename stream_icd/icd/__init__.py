"""The paper's model: what it takes to embed and cluster one graph, and to train it."""
