"""What the Kafka client does not do, or does wrong, each put right in a file of its own.

Nothing else relies on private parts of the client, and tests/kafka/test_private_parts.py names each
of them. Everything here was seen in kafka-python 3.0.12, the only series that pyproject.toml
allows. Only two of the faults were searched for upstream: no issue was found on header names that
are not UTF-8; dpkp/kafka-python#3108 is about closing a producer while its broker is away. Where a
release drops a private part, see in that file whether the workaround is still needed.
"""
