"""What the Kafka client gets wrong, each put right in a file of its own."""
