"""Communities at all scales: levels of coarser graphs, and local moves that maximise modularity."""
