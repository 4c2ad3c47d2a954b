"""The wire contract (docs/wire.md): Arrow tables in Kafka values, CloudEvents in headers."""
