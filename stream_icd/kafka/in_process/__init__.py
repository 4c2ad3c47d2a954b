"""A broker within the process, for trials and for tests of steps, producers and programs."""
