"""The Kafka room: the only place that knows the client library and talks to a broker."""
