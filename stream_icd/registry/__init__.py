"""Models: immutable versions with their lineage, champion and previous.

Never trains, and never changes a version that is there.
"""
