"""Where results come from: topics that are followed, and archives that may grow."""
