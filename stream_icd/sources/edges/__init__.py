"""Edge lists in files."""
