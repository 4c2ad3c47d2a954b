"""Batches of records: who handles them, and how they are published and committed, once."""
