"""Records to and from a broker, exactly once, and the messages in them.

Never knows what a community is. Only `client` imports the Kafka client. A function that asks a
broker raises `BrokerUnavailable` if none answers, and `TopicMissing` if the topic does not exist.
"""
