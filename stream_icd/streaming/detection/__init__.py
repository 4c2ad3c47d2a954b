"""Detection of one snapshot, with memory or without; no consumer group is needed."""
