"""The in-memory graph that both methods use."""
