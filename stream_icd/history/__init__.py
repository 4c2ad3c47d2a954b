"""The past: the archive of windows in Parquet files, and its replay.

Never changes what a topic holds.
"""
