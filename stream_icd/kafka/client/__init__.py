"""The port implemented with kafka-python; only this folder imports that client.

`workarounds/` makes up for what the client lacks or does wrong. Above the port, only
`stream_icd.kafka.connect`, which chooses the implementation, imports from this folder.
"""
