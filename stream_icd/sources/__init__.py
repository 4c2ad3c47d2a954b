"""Snapshots of people's own data: edge lists, tables, timed rows, topics of rows, public data sets.

Never detects, and never sends: it yields what it read.
"""
