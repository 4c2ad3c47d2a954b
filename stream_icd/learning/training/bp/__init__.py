"""Training of bp on past graphs, with or without known communities."""
