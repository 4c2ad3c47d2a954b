"""What runs on a stream: publish, detect, set aside, subscribe."""
