"""Methods of community detection side by side: one contract, limits, measures, and a page."""
