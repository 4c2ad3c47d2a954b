"""The port's contracts kept with kafka-python: the only folder that imports that client.

`workarounds/` has what the client does not do, or does wrong. Nothing above the port imports
anything of this folder but `stream_icd.kafka.connect`, which chooses it.
"""
