"""The Kafka room: the only place that knows the client library and talks to a broker.

Whatever asks a broker raises BrokerUnavailable if none answers, and TopicMissing if a topic that it
needs is not there.
"""
