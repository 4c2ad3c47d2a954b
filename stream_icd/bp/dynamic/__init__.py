"""The communities of a later window of a stream, and of a past one from both its neighbours."""
