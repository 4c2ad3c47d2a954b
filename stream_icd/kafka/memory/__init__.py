"""A broker within the process: for tests of steps, producers and programs, and for trials.

It keeps the port's contracts as Apache Kafka does, transactions and rebalances among them; what it
holds is gone with it. Nobody outside the process reaches it.
"""
