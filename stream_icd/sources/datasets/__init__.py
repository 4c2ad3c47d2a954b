"""Readers of public data sets: the Internet's topology, taxis, and downloads."""
