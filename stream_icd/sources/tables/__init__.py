"""Rows of tables in common formats, and checks of their values."""
