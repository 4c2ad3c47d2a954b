"""The live page and the report: what is seen of a stream, computed by pure functions and served."""
