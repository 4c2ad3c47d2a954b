"""The command `stream-icd dlq`."""
