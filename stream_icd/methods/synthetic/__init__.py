"""Graphs with planted communities: benchmarks with known ground truth."""
