"""Consumer group members: a step that processes each record, and the loop around it."""
