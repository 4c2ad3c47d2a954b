"""Graphs with communities planted in them: benchmarks whose right answer is known."""
