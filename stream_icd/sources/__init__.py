"""Where snapshots come from: readers of the forms in which people keep their data."""
