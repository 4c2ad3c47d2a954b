"""The `stream-icd` command."""
