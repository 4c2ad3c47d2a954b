"""What the project needs of a broker, in its own words: types and contracts, no client.

`client` fulfils them with kafka-python, `memory` within the process. Every error that a method
raises is one of `stream_icd.errors`, or of `port.errors` where only the flow can handle it.
"""
