"""What bp learns from past graphs, with communities or without."""
