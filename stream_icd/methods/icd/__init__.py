"""The paper's method, icd: a frozen encoder embeds the graph, K-means clusters the embedding."""
