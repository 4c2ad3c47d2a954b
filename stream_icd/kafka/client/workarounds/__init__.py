"""Workarounds for what the Kafka client lacks or does wrong, one file each.

Only this folder uses private parts of the client; tests/kafka/test_private_parts.py names each of
them. All faults were seen in kafka-python 3.0.12, the only series that pyproject.toml allows. Of
those searched for upstream, dpkp/kafka-python#3108 is about closing a producer while its broker is
unavailable; the main branch still kept offsets too long in August 2026. If a release drops a
private part, check in that file whether the workaround is still needed.
"""
