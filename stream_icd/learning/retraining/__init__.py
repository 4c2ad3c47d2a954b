"""Retraining: when to learn, from which windows, and whether a new model replaces the old."""
