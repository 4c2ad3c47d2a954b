"""A broker within the process, for trials and for tests of steps, producers and programs.

It fulfils the port's contracts as Apache Kafka does, including transactions and rebalances. Its
data is lost when it stops, and other processes cannot reach it.
"""
