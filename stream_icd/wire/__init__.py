"""The contract on the wire (docs/wire.md): Arrow tables in Kafka values, CloudEvents in headers."""
