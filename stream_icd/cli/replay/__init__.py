"""The command `stream-icd replay`."""
