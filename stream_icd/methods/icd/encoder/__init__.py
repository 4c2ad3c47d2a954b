"""Graph encoders: one contract (`contract.py`), one encoder a file."""
