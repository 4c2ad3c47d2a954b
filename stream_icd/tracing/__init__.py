"""Traces with OpenTelemetry, from the producer of a snapshot to the subscriber of its results."""
