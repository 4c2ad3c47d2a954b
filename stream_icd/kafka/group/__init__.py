"""Membership in a consumer group: partitions, lag, checks, and what a group withholds."""
