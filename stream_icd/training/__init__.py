"""How models are made: from past graphs, offline."""
