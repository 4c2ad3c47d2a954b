"""What runs as a member of a consumer group: a step for each record, and the loop around it."""
