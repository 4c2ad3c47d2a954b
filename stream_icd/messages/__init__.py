"""How snapshots and results become Kafka messages, and messages become them again."""
