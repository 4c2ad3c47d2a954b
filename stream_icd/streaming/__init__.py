"""What runs on topics: workers that detect and track, the processes they detect in, subscribers.

Never learns, and never keeps state that a topic does not hold.
"""
