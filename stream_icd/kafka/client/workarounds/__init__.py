"""What the Kafka client does not do, or does wrong, each put right in a file of its own.

Nothing else relies on private parts of the client, and tests/kafka/test_private_parts.py names each
of them. Everything here was seen in kafka-python 3.0.12, the only series that pyproject.toml
allows. Some of the faults were searched for upstream: dpkp/kafka-python#3108 is about closing a
producer while its broker is away; no issue was found on header names that are not UTF-8, nor on
offsets that are kept too long (committed_offsets, transactions), which its main branch still had in
August 2026. Where a release drops a private part, see in that file whether the workaround is still
needed.
"""
