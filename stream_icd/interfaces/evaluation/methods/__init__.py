"""The methods of `stream-icd evaluate`; the lab adds others. Each file defines `METHODS`."""
