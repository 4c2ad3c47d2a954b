"""Offline training of models on past graphs."""
