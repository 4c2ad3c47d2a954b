"""Sources of snapshots: readers of common data formats, and generators."""
