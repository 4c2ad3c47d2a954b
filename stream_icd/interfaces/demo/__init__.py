"""The demonstration: producer, detector and subscriber as separate processes over Kafka."""
