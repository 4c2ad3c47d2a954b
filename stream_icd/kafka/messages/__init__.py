"""Converts snapshots and results to Kafka messages and back."""
