"""Streams of generated graphs."""
