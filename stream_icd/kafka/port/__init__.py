"""The project's own interface to a broker: types and contracts, independent of any client.

`client` implements it with kafka-python, `in_process` within the process. Every error that a method
raises is from `stream_icd.errors`, or from `port.broker` if only the calling code can handle it.
"""
