"""The command `stream-icd subscribe`."""
