"""Files on any disk or object store, whole or not at all."""
