"""The command `stream-icd history`."""
